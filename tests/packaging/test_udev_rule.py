"""The rule in `host/packaging/udev`: which ports it takes, and what it does with them."""

import fnmatch
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "host/packaging/udev/70-wakebridge.rules"

TOKEN = re.compile(
    r'(?P<key>[A-Z]+)(?:\{(?P<name>\w+)\})?(?P<operator>==|!=|\+=|=)"(?P<value>.*?)"'
)
MATCHES = {"ACTION", "SUBSYSTEM", "ATTRS", "ENV"}
ASSIGNS = {"ENV", "GROUP", "MODE", "SYMLINK", "GOTO", "LABEL"}


@dataclass(frozen=True)
class Term:
    key: str
    name: str
    operator: str
    value: str

    @property
    def is_match(self) -> bool:
        return self.operator in ("==", "!=")


def rules() -> Iterator[list[Term]]:
    for line in RULES.read_text().splitlines():
        if line and not line.startswith("#"):
            assert TOKEN.sub("", line).replace(",", "").strip() == "", line
            yield [Term(m["key"], m["name"] or "", m["operator"], m["value"])
                   for m in TOKEN.finditer(line)]  # fmt: skip


@dataclass
class Device:
    """What udev knows of a device when it comes to our rule, and what the rule made of it."""

    subsystem: str
    vendor: str
    product: str
    manufacturer: str = ""
    serial: str = "e6614c311b7e8f35"
    action: str = "add"
    env: dict[str, str] = field(default_factory=dict)
    symlinks: list[str] = field(default_factory=list)
    group: str = "root"
    mode: str = ""

    def __post_init__(self) -> None:
        # 60-serial.rules has run before.
        self.env |= {"ID_SERIAL_SHORT": self.serial, "ID_USB_INTERFACE_NUM": "00"}

    def says(self, term: Term) -> str:
        if term.key == "ENV":
            return self.env.get(term.name, "")
        attributes = {"idVendor": self.vendor, "idProduct": self.product,
                      "manufacturer": self.manufacturer}  # fmt: skip
        return {"ACTION": self.action, "SUBSYSTEM": self.subsystem}.get(
            term.key, attributes.get(term.name, "")
        )

    def fits(self, term: Term) -> bool:
        said = self.says(term)
        fits = any(fnmatch.fnmatchcase(said, pattern) for pattern in term.value.split("|"))
        return fits == (term.operator == "==")

    def take(self, term: Term) -> None:
        value = re.sub(r"\$env\{(\w+)\}", lambda found: self.env.get(found[1], ""), term.value)
        match term.key:
            case "ENV":
                self.env[term.name] = value
            case "SYMLINK":
                self.symlinks.append(value)
            case "GROUP":
                self.group = value
            case "MODE":
                self.mode = value


def apply(device: Device) -> Device:
    """Do what udev does with the rule, as udev(7) describes it."""
    wanted = ""
    for rule in rules():
        label = next((term.value for term in rule if term.key == "LABEL"), "")
        if wanted and label != wanted:
            continue
        wanted = ""
        if all(device.fits(term) for term in rule if term.is_match):
            for term in rule:
                if term.key == "GOTO":
                    wanted = term.value
                elif not term.is_match:
                    device.take(term)
    assert not wanted, f"no label {wanted}"
    return device


def test_udev_itself_finds_nothing_to_complain_of() -> None:
    """`udevadm verify` came with systemd 254; below, our own reading of the grammar has to do."""
    for rule in rules():
        for term in rule:
            assert term.key in (MATCHES if term.is_match else ASSIGNS)
    udevadm = shutil.which("udevadm")
    if udevadm is None:
        return
    helped = subprocess.run((udevadm, "verify", "--help"), capture_output=True, timeout=30)
    if helped.returncode == 0:
        verified = subprocess.run(
            (udevadm, "verify", str(RULES)), capture_output=True, text=True, timeout=30
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr


BOARDS = {
    "Pico": ("2e8a", "0005", "MicroPython"),
    "pyboard": ("f055", "9800", "MicroPython"),
    "Teensy 4.1": ("f055", "9802", "MicroPython"),
    "ESP32-C3": ("303a", "1001", "Espressif"),
    "ESP32-S3": ("303a", "4001", "Espressif Systems"),
    "a maker's own board": ("239a", "80f2", "MicroPython"),
}
OTHERS = {
    "a serial adapter": ("10c4", "ea60", "Silicon Labs"),
    "a modem": ("12d1", "1506", "HUAWEI"),
    "a Pico that runs something else": ("2e8a", "000a", "Raspberry Pi"),
}


@pytest.mark.parametrize("ids", BOARDS.values(), ids=BOARDS)
def test_a_boards_port_is_left_alone_by_modem_manager_and_named_after_its_board(
    ids: tuple[str, str, str],
) -> None:
    port = apply(Device("tty", *ids))
    assert port.env["ID_MM_DEVICE_IGNORE"] == port.env["ID_MM_PORT_IGNORE"] == "1"
    assert (port.group, port.mode) == ("dialout", "0660")
    assert port.symlinks == ["wakebridge/e6614c311b7e8f35-if00"]
    # ModemManager looks at the USB device, too, where there is no port to name.
    device = apply(Device("usb", *ids))
    assert device.env["ID_MM_DEVICE_IGNORE"] == "1"
    assert device.symlinks == []


@pytest.mark.parametrize("ids", OTHERS.values(), ids=OTHERS)
def test_what_is_no_board_is_not_touched(ids: tuple[str, str, str]) -> None:
    port = apply(Device("tty", *ids))
    assert port == Device("tty", *ids)


def test_a_board_without_a_serial_number_gets_no_name_that_others_could_take() -> None:
    assert apply(Device("tty", *BOARDS["Pico"], serial="")).symlinks == []


def test_a_device_that_goes_is_not_asked_anything() -> None:
    gone = Device("tty", *BOARDS["Pico"], action="remove")
    assert apply(gone) == Device("tty", *BOARDS["Pico"], action="remove")


def test_it_runs_after_the_serial_number_is_known_and_before_modem_manager() -> None:
    assert "60-" < RULES.name < "77-"
