"""Full text search over messages

SQLite: an FTS5 table without a copy of the texts, kept by triggers; left out where the library lacks FTS5.
PostgreSQL: an index over the first part of each text, because a tsvector over 1 MB would refuse the message itself.
A later migration that makes the table `messages` anew (batch mode on SQLite) must make the triggers anew too.
"""

from alembic import op
from sqlalchemy.exc import OperationalError

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

FTS5 = (
    "CREATE VIRTUAL TABLE messages_search USING fts5(text, content='messages', content_rowid='id', "
    "tokenize='unicode61 remove_diacritics 2', prefix='2 3')"
)
ADD = "INSERT INTO messages_search(rowid, text) VALUES (new.id, new.text);"
TAKE = "INSERT INTO messages_search(messages_search, rowid, text) VALUES ('delete', old.id, old.text);"
TRIGGERS = {
    'messages_search_insert': f"AFTER INSERT ON messages BEGIN {ADD} END",
    'messages_search_delete': f"AFTER DELETE ON messages BEGIN {TAKE} END",
    'messages_search_update': f"AFTER UPDATE OF text ON messages BEGIN {TAKE} {ADD} END",
}
GIN = "CREATE INDEX messages_search ON messages USING gin (to_tsvector('simple', left(text, 100000)))"


def upgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name == 'postgresql':
        bind.exec_driver_sql(GIN)
        return
    try:
        bind.exec_driver_sql(FTS5)
    except OperationalError as error:
        if 'no such module' not in str(error):
            raise
        return
    for name, body in TRIGGERS.items():
        bind.exec_driver_sql(f"CREATE TRIGGER {name} {body}")
    bind.exec_driver_sql("INSERT INTO messages_search(messages_search) VALUES ('rebuild')")


def downgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name == 'postgresql':
        bind.exec_driver_sql("DROP INDEX messages_search")
        return
    for name in TRIGGERS:
        bind.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
    bind.exec_driver_sql("DROP TABLE IF EXISTS messages_search")
