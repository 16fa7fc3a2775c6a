"""Every property that is held to. A name begins with the requirement that it guards.

Numbers are those of the conformance page: E for scheduled events, R for schedules and routines.
"""

from typing import Final

# -- scheduled events ------------------------------------------------------------------------------

LOST: Final = "E31 nothing accepted is lost"
EARLY: Final = "E31 nothing fires before it is due"
REFIRE: Final = "E51 never refire"
REPEATS: Final = "E51 at most one repeat per crash"
MISFIRE: Final = "E41 misfires are announced before the late fire"
COUNTS: Final = "E9 count and until are exact"
PHASE: Final = "E6 the phase never drifts"
OWNERS: Final = "E61 one owner never sees another's"
ANSWERS: Final = "E50 answers tell the truth"
ANSWERED: Final = "E20 every request is answered"
READY: Final = "E53 ready comes before what was missed"
TRUST: Final = "E71 an unsynchronized clock fires nothing"
NEWEST_PAST: Final = "E71 the newest past is what was written"
CONTENT: Final = "E30 a fire carries what was stored"
DISK: Final = "E52 the store is the old or the new state"
BOUNDED: Final = "E54 memory and queues are bounded"

# -- routines --------------------------------------------------------------------------------------

ELIGIBLE: Final = "R40 only a wake of the countdown makes work eligible"
TOGETHER: Final = "R41 cursor and queue are saved together, before execution"
ONCE: Final = "R47 no occurrence runs twice"
CADENCE: Final = "R6 the phase of a routine never drifts"
KEPT: Final = "R30 the document is the old or the new one"
ROUTINE_LOST: Final = "R30 no routine is lost"
LINEAGE: Final = "R22 work goes to the newest revision of a conversation that is open"
ALONE: Final = "R21 a conversation has one run at a time"
DUE_ROUTINE: Final = "R44 a due routine is woken for"
STARTED: Final = "R20 what is queued is started"
RECORDED: Final = "R23 results are kept"
TOOL_ANSWERS: Final = "R8 answers of the tool tell the truth"
TOOL_ANSWERED: Final = "R7 every call of the tool is answered"

# -- the countdown ---------------------------------------------------------------------------------

ARMED: Final = "R44 plan and countdown agree"
WOKEN: Final = "R5 the host is woken in time"
TAKEN: Final = "R9 a countdown of another program is left alone"
LIMIT: Final = "R5 a countdown is never longer than 604800 s"
EVENTS: Final = "R41 the event log tells what happened"
UPTIME: Final = "R5 the board's clock counts every tick"
OUTLASTS: Final = "R49 a countdown outlasts a soft reset"
LINKED: Final = "R49 a board that is there is found and kept"

# -- everything ------------------------------------------------------------------------------------

ALIVE: Final = "E35 the bridge keeps going"
RESTS: Final = "E35 the bridge comes to rest"
FAULTLESS: Final = "E35 the bridge has no fault of its own"
FIRMWARE_ALIVE: Final = "R5 the firmware keeps going"
