"""FastAPI: one request per customer at a time, in all processes of the service. Others wait their turn, or get 409.

    uvicorn fastapi_app:app
"""

import asyncio
import os
from contextlib import asynccontextmanager
from typing import AsyncIterator

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse

import taketurns
from taketurns import aio

taketurns.metrics.enable()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # In the process that serves, so also after a fork of the server.
    async with aio.connect(os.environ["TAKETURNS_STORE"]) as app.state.locks:
        yield


app = FastAPI(lifespan=lifespan)
balances: dict[int, int] = {}


def locks(request: Request) -> aio.Locks:
    found: aio.Locks = request.app.state.locks
    return found


@app.post("/customers/{customer}/pay/{amount}")
async def pay(customer: int, amount: int, request: Request, wait: float = 5.0) -> dict[str, int]:
    try:
        async with locks(request).mutex(f"customers/{customer}").acquire(timeout=wait, why="pay") as guard:
            balance = balances.get(customer, 0)
            await asyncio.sleep(0.01)  # a payment provider; if the lock is lost meanwhile, this is cancelled
            balances[customer] = balance + amount
            return {"balance": balances[customer], "token": guard.check()}
    except taketurns.AcquireTimeout as error:
        raise HTTPException(409, "another payment of this customer is under way") from error


@app.get("/metrics", response_class=PlainTextResponse)
def metrics() -> str:
    return taketurns.metrics.render()
