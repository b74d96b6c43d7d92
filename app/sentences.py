"""What the service itself says to people, in their language where the platform tells it. English is the key.

`say` looks a sentence up by its English words; what has no translation is said in English.
"""

from typing import Any

LANGUAGES = ("en", "de", "fr", "es", "pt")

STRANGER = (
    "I only talk to people who were invited. If you have a pairing code, send it to me; if not, ask whoever runs me."
)
WRONG_CODE = "This code is not valid (any more). Ask for a new one."
HELLO = "Hello {name}! You are paired; just write to me. /help lists what else I understand."
ASK_ZONE = "Which time zone are you in? Send /timezone and its name, such as /timezone Europe/Paris."
CODE = "Send this code to me from the new person's chat: {code}\nIt is good once, until {until}."
ADMINS_ONLY = "Only an admin may do that."
GROUP_PAIRED = "Everybody in this chat may talk to me now. Mention me, or answer one of my messages."
ZONE_SET = "Your time zone is {zone}."
ZONE_WRONG = "There is no time zone {zone}. Accepted: a name such as Europe/Paris."
OLD_BUTTON = "This button is from another time and does nothing any more."
UNKNOWN_NOTICE = (
    'I was interrupted while sending my last reply, so it may not have reached you. Say "again" if it did not.'
)
GIVEN_UP = "(This answer was given up.)"
FAILED = "Something went wrong inside me and I could not finish this (run {run_id})."
NOTHING_DONE = "Nothing was changed by it."
WAS_DONE = "Before that I had done: {done}."
MAY_BE_DONE = "This may or may not have happened: {unsure}; please look before you repeat it."
IN_GROUP = "Mention me in your answer."
UNHEARD = "I could not get to your message, although I tried several times."
TRY_AGAIN = 'Your message is kept: say "again" to have me try once more, or put it in other words.'

MENU = (
    ("new", "Start a fresh conversation"),
    ("stop", "End what I am doing"),
    ("status", "Show where things stand"),
    ("tasks", "List what runs in the background"),
    ("undo", "Take back the last exchange"),
    ("search", "Look for what was said"),
    ("model", "Show or change the model"),
    ("voice", "Have answers read aloud, or not"),
    ("timezone", "Say where you are in time"),
    ("help", "List all commands"),
)
"""The commands that a platform shows to people, and what they do."""

OTHERS: dict[str, tuple[str, str, str, str]] = {
    STRANGER: (
        "Ich spreche nur mit eingeladenen Personen. Wenn du einen Kopplungscode hast, schick ihn mir; sonst "
        "frag bitte, wer mich betreibt.",
        "Je ne parle qu'aux personnes invitées. Si vous avez un code d'appairage, envoyez-le-moi ; sinon, "
        "demandez à la personne qui me gère.",
        "Solo hablo con personas invitadas. Si tienes un código de emparejamiento, envíamelo; si no, pídeselo "
        "a quien me administra.",
        "Só falo com pessoas convidadas. Se você tem um código de pareamento, envie-o para mim; senão, peça a "
        "quem me administra.",
    ),
    WRONG_CODE: (
        "Dieser Code gilt nicht (mehr). Bitte um einen neuen.",
        "Ce code n'est pas (ou plus) valable. Demandez-en un nouveau.",
        "Este código no es válido (o ya no). Pide uno nuevo.",
        "Este código não é válido (ou já não é). Peça um novo.",
    ),
    HELLO: (
        "Hallo {name}! Du bist gekoppelt; schreib mir einfach. /help zeigt, was ich sonst verstehe.",
        "Bonjour {name} ! Vous êtes appairé ; écrivez-moi simplement. /help montre ce que je comprends d'autre.",
        "¡Hola, {name}! Ya estás emparejado; simplemente escríbeme. /help muestra qué más entiendo.",
        "Olá, {name}! Você está pareado; é só escrever para mim. /help mostra o que mais eu entendo.",
    ),
    ASK_ZONE: (
        "In welcher Zeitzone bist du? Schick /timezone und ihren Namen, zum Beispiel /timezone Europe/Berlin.",
        "Dans quel fuseau horaire êtes-vous ? Envoyez /timezone et son nom, par exemple /timezone Europe/Paris.",
        "¿En qué zona horaria estás? Envía /timezone y su nombre, por ejemplo /timezone Europe/Madrid.",
        "Em que fuso horário você está? Envie /timezone e o nome dele, por exemplo /timezone America/Sao_Paulo.",
    ),
    CODE: (
        "Schick mir diesen Code aus dem Chat der neuen Person: {code}\nEr gilt einmal, bis {until}.",
        "Envoyez-moi ce code depuis le chat de la nouvelle personne : {code}\nIl est valable une fois, jusqu'à "
        "{until}.",
        "Envíame este código desde el chat de la nueva persona: {code}\nSirve una vez, hasta {until}.",
        "Envie-me este código a partir do chat da nova pessoa: {code}\nVale uma vez, até {until}.",
    ),
    ADMINS_ONLY: (
        "Das darf nur ein Admin.",
        "Seul un administrateur peut faire cela.",
        "Solo un administrador puede hacer eso.",
        "Só um administrador pode fazer isso.",
    ),
    GROUP_PAIRED: (
        "Alle in diesem Chat dürfen jetzt mit mir sprechen. Erwähne mich, oder antworte auf eine meiner Nachrichten.",
        "Tout le monde dans ce chat peut maintenant me parler. Mentionnez-moi, ou répondez à un de mes messages.",
        "Todos en este chat pueden hablar conmigo ahora. Mencióname o responde a uno de mis mensajes.",
        "Todos neste chat podem falar comigo agora. Mencione-me ou responda a uma das minhas mensagens.",
    ),
    ZONE_SET: (
        "Deine Zeitzone ist {zone}.",
        "Votre fuseau horaire est {zone}.",
        "Tu zona horaria es {zone}.",
        "Seu fuso horário é {zone}.",
    ),
    ZONE_WRONG: (
        "Eine Zeitzone {zone} gibt es nicht. Erlaubt ist ein Name wie Europe/Berlin.",
        "Il n'y a pas de fuseau horaire {zone}. Accepté : un nom comme Europe/Paris.",
        "No existe la zona horaria {zone}. Se acepta un nombre como Europe/Madrid.",
        "Não existe o fuso horário {zone}. Aceita-se um nome como America/Sao_Paulo.",
    ),
    IN_GROUP: (
        "Erwähne mich in deiner Antwort.",
        "Mentionnez-moi dans votre réponse.",
        "Mencióname en tu respuesta.",
        "Mencione-me na sua resposta.",
    ),
    OLD_BUTTON: (
        "Dieser Knopf ist von früher und bewirkt nichts mehr.",
        "Ce bouton date d'un autre moment et ne fait plus rien.",
        "Este botón es de otro momento y ya no hace nada.",
        "Este botão é de outro momento e já não faz nada.",
    ),
    UNKNOWN_NOTICE: (
        "Ich wurde unterbrochen, während ich meine letzte Antwort schickte; vielleicht kam sie nicht an. "
        'Schreib "nochmal", falls nicht.',
        "J'ai été interrompu pendant l'envoi de ma dernière réponse ; elle ne vous est peut-être pas parvenue. "
        'Dites "encore" si c\'est le cas.',
        "Me interrumpieron mientras enviaba mi última respuesta, así que quizá no te llegó. Di «otra vez» si no llegó.",
        'Fui interrompido ao enviar minha última resposta; talvez ela não tenha chegado. Diga "de novo" se não chegou.',
    ),
    GIVEN_UP: (
        "(Diese Antwort wurde aufgegeben.)",
        "(Cette réponse a été abandonnée.)",
        "(Esta respuesta se abandonó.)",
        "(Esta resposta foi abandonada.)",
    ),
    FAILED: (
        "In mir ist etwas schiefgegangen, und ich konnte das nicht zu Ende bringen (Lauf {run_id}).",
        "Quelque chose s'est mal passé en moi et je n'ai pas pu terminer (exécution {run_id}).",
        "Algo falló dentro de mí y no pude terminar esto (ejecución {run_id}).",
        "Algo deu errado dentro de mim e não consegui terminar isto (execução {run_id}).",
    ),
    NOTHING_DONE: (
        "Dabei wurde nichts verändert.",
        "Rien n'a été modifié.",
        "No se cambió nada.",
        "Nada foi alterado.",
    ),
    WAS_DONE: (
        "Davor hatte ich getan: {done}.",
        "Avant cela, j'avais fait : {done}.",
        "Antes de eso había hecho: {done}.",
        "Antes disso eu tinha feito: {done}.",
    ),
    MAY_BE_DONE: (
        "Das ist vielleicht geschehen, vielleicht nicht: {unsure}; sieh bitte nach, bevor du es wiederholst.",
        "Ceci a pu se produire ou non : {unsure} ; vérifiez avant de le répéter.",
        "Esto pudo ocurrir o no: {unsure}; compruébalo antes de repetirlo.",
        "Isto pode ter acontecido ou não: {unsure}; verifique antes de repetir.",
    ),
    UNHEARD: (
        "Ich bin nicht dazu gekommen, dir zu antworten, obwohl ich es mehrmals versucht habe.",
        "Je n'ai pas pu traiter votre message, malgré plusieurs essais.",
        "No pude atender tu mensaje, aunque lo intenté varias veces.",
        "Não consegui tratar sua mensagem, embora tenha tentado várias vezes.",
    ),
    TRY_AGAIN: (
        'Deine Nachricht ist aufgehoben: Schreib "nochmal", dann versuche ich es wieder, oder sag es mit '
        "anderen Worten.",
        'Votre message est conservé : dites "encore" pour que je réessaie, ou reformulez-le.',
        "Tu mensaje está guardado: di «otra vez» para que lo intente de nuevo, o dilo con otras palabras.",
        'Sua mensagem está guardada: diga "de novo" para eu tentar outra vez, ou diga com outras palavras.',
    ),
    "Stopped.": (
        "Angehalten.",
        "Arrêté.",
        "Detenido.",
        "Parado.",
    ),
    "Nothing was running.": (
        "Es lief nichts.",
        "Rien n'était en cours.",
        "No había nada en marcha.",
        "Nada estava em andamento.",
    ),
    "A fresh conversation. The old one is kept (/sessions).": (
        "Ein neues Gespräch. Das alte bleibt erhalten (/sessions).",
        "Une nouvelle conversation. L'ancienne est conservée (/sessions).",
        "Una conversación nueva. La anterior se conserva (/sessions).",
        "Uma conversa nova. A antiga fica guardada (/sessions).",
    ),
    "There is nothing to take back.": (
        "Es gibt nichts zurückzunehmen.",
        "Il n'y a rien à annuler.",
        "No hay nada que deshacer.",
        "Não há nada a desfazer.",
    ),
    "Have answers read aloud, or not": (
        "Antworten vorlesen lassen oder nicht",
        "Faire lire les réponses à voix haute, ou non",
        "Leer las respuestas en voz alta, o no",
        "Ler as respostas em voz alta, ou não",
    ),
    "There are no open tasks.": (
        "Es gibt keine offenen Aufgaben.",
        "Il n'y a pas de tâches en cours.",
        "No hay tareas abiertas.",
        "Não há tarefas abertas.",
    ),
    'I was interrupted while working on this and did not go on by myself. Say "go on" if I should.': (
        'Ich wurde bei dieser Arbeit unterbrochen und habe nicht von selbst weitergemacht. Schreib "weiter", '
        "wenn ich soll.",
        "J'ai été interrompu pendant ce travail et je n'ai pas continué de moi-même. Dites \"continue\" si je "
        "dois le faire.",
        "Me interrumpieron mientras trabajaba en esto y no seguí por mi cuenta. Di «sigue» si debo hacerlo.",
        'Fui interrompido enquanto trabalhava nisto e não continuei sozinho. Diga "continue" se eu devo.',
    ),
    "The model gave an empty answer twice. Please ask again, perhaps in other words.": (
        "Das Modell gab zweimal eine leere Antwort. Frag bitte noch einmal, vielleicht mit anderen Worten.",
        "Le modèle a donné deux fois une réponse vide. Redemandez, peut-être en d'autres termes.",
        "El modelo dio dos veces una respuesta vacía. Pregunta otra vez, quizá con otras palabras.",
        "O modelo deu duas vezes uma resposta vazia. Pergunte de novo, talvez com outras palavras.",
    ),
    "Something went wrong inside me while I worked on this. The log says what; please try again.": (
        "Bei dieser Arbeit ist in mir etwas schiefgegangen. Das Protokoll sagt, was; versuch es bitte noch einmal.",
        "Quelque chose s'est mal passé en moi pendant ce travail. Le journal dit quoi ; réessayez.",
        "Algo falló dentro de mí mientras trabajaba en esto. El registro dice qué; inténtalo de nuevo.",
        "Algo deu errado dentro de mim enquanto trabalhava nisto. O registro diz o quê; tente de novo.",
    ),
    "Approve": (
        "Erlauben",
        "Autoriser",
        "Aprobar",
        "Aprovar",
    ),
    "Deny": (
        "Ablehnen",
        "Refuser",
        "Rechazar",
        "Recusar",
    ),
    "Start a fresh conversation": (
        "Ein neues Gespräch beginnen",
        "Commencer une nouvelle conversation",
        "Empezar una conversación nueva",
        "Começar uma conversa nova",
    ),
    "End what I am doing": (
        "Beenden, was ich tue",
        "Arrêter ce que je fais",
        "Terminar lo que hago",
        "Parar o que faço",
    ),
    "Show where things stand": (
        "Zeigen, wie es steht",
        "Montrer où on en est",
        "Mostrar cómo va todo",
        "Mostrar como está",
    ),
    "List what runs in the background": (
        "Zeigen, was im Hintergrund läuft",
        "Lister ce qui tourne en arrière-plan",
        "Listar lo que corre en segundo plano",
        "Listar o que roda em segundo plano",
    ),
    "Take back the last exchange": (
        "Den letzten Wortwechsel zurücknehmen",
        "Annuler le dernier échange",
        "Deshacer el último intercambio",
        "Desfazer a última troca",
    ),
    "Look for what was said": (
        "Suchen, was gesagt wurde",
        "Chercher ce qui a été dit",
        "Buscar lo dicho",
        "Buscar o que foi dito",
    ),
    "Show or change the model": (
        "Das Modell zeigen oder wechseln",
        "Montrer ou changer le modèle",
        "Mostrar o cambiar el modelo",
        "Mostrar ou mudar o modelo",
    ),
    "Say where you are in time": (
        "Die eigene Zeitzone nennen",
        "Indiquer votre fuseau horaire",
        "Indicar tu zona horaria",
        "Informar seu fuso horário",
    ),
    "List all commands": (
        "Alle Befehle zeigen",
        "Lister les commandes",
        "Listar todos los comandos",
        "Listar os comandos",
    ),
}
"""German, French, Spanish and Portuguese of each sentence."""


def say(sentence: str, language: str | None = None, **values: Any) -> str:
    """`sentence` (English, with `{names}` for `values`) in the language of a tag such as `pt-BR`, else in English."""
    tag = (language or "").replace("_", "-").partition("-")[0].lower()
    others = OTHERS.get(sentence)
    said = others[LANGUAGES.index(tag) - 1] if others is not None and tag in LANGUAGES[1:] else sentence
    return said.format(**values) if values else said
