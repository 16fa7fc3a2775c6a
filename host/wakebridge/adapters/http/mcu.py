"""The board: its countdown while nobody owns it (R46), its log, and its port."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.operation import SERVICES, Operation, answer_json, read
from wakebridge.service.board_desk import Lent
from wakebridge.wake.reconciler import CountdownState, TimerReading


async def _timer_get(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.reading())


async def _timer_put(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.SetTimer)
    return _timer(await request.app[SERVICES].timer.set_by_hand(round(wanted.duration_s * 1000)))


async def _timer_delete(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.cancel_by_hand())


def _timer(reading: TimerReading) -> web.Response:
    armed = reading.state is CountdownState.ARMED
    return answer_json(
        bodies.Timer(
            state=reading.state.name.lower(),
            remaining_s=reading.remaining_ms / 1000 if armed else None,
            token=reading.token if armed else None,
            approximate=reading.approximate,
        )
    )


async def _board(request: web.Request) -> web.Response:
    services = request.app[SERVICES]
    return answer_json(await services.board.info(services.timer.hello))


async def _board_events(request: web.Request) -> web.Response:
    return answer_json(await request.app[SERVICES].board.events())


async def _board_lend(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.LendPort)
    board = request.app[SERVICES].board
    return answer_json(await board.lend(wanted.limit_s, int(wanted.tcp_port)))


async def _board_take_back(request: web.Request) -> web.Response:
    return answer_json(await request.app[SERVICES].board.take_back())


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/api/mcu/timer",
        summary="Read the live countdown",
        handler=_timer_get,
        answer=bodies.Timer,
        refusals=(503,),
    ),
    Operation(
        method="PUT",
        path="/api/mcu/timer",
        summary="Set a countdown by hand, while no schedule owns it",
        handler=_timer_put,
        body=bodies.SetTimer,
        answer=bodies.Timer,
        refusals=(409, 503),
    ),
    Operation(
        method="DELETE",
        path="/api/mcu/timer",
        summary="Cancel a countdown that was set by hand",
        handler=_timer_delete,
        answer=bodies.Timer,
        refusals=(409, 503),
    ),
    Operation(
        method="GET",
        path="/api/board",
        summary="Who the board is, its counters, and how its clock runs",
        handler=_board,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
    Operation(
        method="GET",
        path="/api/board/events",
        summary="Every event the board still has, oldest first",
        handler=_board_events,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
    Operation(
        method="POST",
        path="/api/board/lend",
        summary="Lend the serial port to a technician over RFC 2217 on loopback",
        handler=_board_lend,
        body=bodies.LendPort,
        answer=Lent,
        refusals=(503,),
    ),
    Operation(
        method="DELETE",
        path="/api/board/lend",
        summary="Take the port back now",
        handler=_board_take_back,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
)
