"""A small program that knows Inngest's public SDK and nothing of the server that it runs on.

    INNGEST_DEV=http://127.0.0.1:8288 uvicorn examples.third_party:app --port 8000

It works with Inngest's Dev Server, and unchanged with `moab engine --port 8288 -u http://127.0.0.1:8000/api/inngest`.
Send `shop/order.placed` with `{"order": "o-1", "items": [2, 3]}`, then `shop/order.paid` with `{"order": "o-1"}`:
the order prices its items beside one another, waits for its payment, has an invoice made, and is counted in a batch.
"""

import datetime
from collections.abc import Awaitable, Callable
from typing import cast

import fastapi
import inngest
import inngest.fast_api

client = inngest.Inngest(app_id="shop")


@client.create_function(fn_id="make-invoice", trigger=inngest.TriggerEvent(event="shop/invoice.wanted"))
async def make_invoice(ctx: inngest.Context) -> str:
    """Numbers an invoice; invoked by orders."""

    async def number() -> str:
        return f"invoice for {ctx.event.data['order']}: {ctx.event.data['total']}"

    return await ctx.step.run("number", number)


@client.create_function(fn_id="handle-order", trigger=inngest.TriggerEvent(event="shop/order.placed"), retries=3)
async def handle_order(ctx: inngest.Context) -> dict[str, object]:
    """Prices the items in parallel steps, waits for the payment, invokes the invoice, reports the sale."""
    order, items = str(ctx.event.data["order"]), ctx.event.data["items"]

    async def price(item: int) -> int:
        return item * 10

    def priced(item: int) -> Callable[[], Awaitable[int]]:
        return lambda: ctx.step.run(f"price-{item}", price, item)

    prices = await ctx.group.parallel(tuple(priced(item) for item in cast(list[int], items)))
    paid = await ctx.step.wait_for_event(
        "payment",
        event="shop/order.paid",
        if_exp="event.data.order == async.data.order",
        timeout=datetime.timedelta(minutes=10),
    )
    if paid is None:
        return {"order": order, "state": "not paid"}
    invoice = await ctx.step.invoke(
        "invoice", function=make_invoice, data={"order": order, "total": sum(prices)}, timeout=60_000
    )
    await ctx.step.send_event("report", inngest.Event(name="shop/order.sold", data={"order": order}))
    return {"order": order, "state": "sold", "invoice": invoice}


@client.create_function(
    fn_id="count-sales",
    trigger=inngest.TriggerEvent(event="shop/order.sold"),
    batch_events=inngest.Batch(max_size=2, timeout=datetime.timedelta(seconds=30)),
)
async def count_sales(ctx: inngest.Context) -> list[str]:
    """Counts sales, two at a time."""
    return sorted(str(event.data["order"]) for event in ctx.events)


app = fastapi.FastAPI()
inngest.fast_api.serve(app, client, [make_invoice, handle_order, count_sales])
