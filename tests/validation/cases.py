"""The scenarios that are compared with other programs' results, as TOML, and how they are run."""

import csv
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")
# The HPCC simulator's clock cuts serialisation to whole nanoseconds (83 for 83.84): its goodput
# is that much too high.
CLOCK = {"100G": 83 / 83.84, "40G": 209 / 209.6}
HPCC_CLOCK = 87 / 87.2  # at 100G; its packets have 42 bytes of telemetry, whatever the way

# Column dcqcn_paper and sigcomm15 of the reference runs, as changes of column dcqcn.
PAPER = 'dce_tcp_rtt = "50us"\nrate_reduce_monitor_period = "50us"\nrpg_time_reset = "55us"\n'
SIGCOMM = ('dce_tcp_rtt = "55us"\nrate_reduce_monitor_period = "50us"\nrpg_time_reset = "55us"\n'
           'rpg_threshold = 5\nrpg_ai_rate = "40M"\nrpg_hai_rate = "40M"\nrpg_min_rate = "10M"\n')
MODES = {"dcqcn": "", "dcqcn_paper": PAPER, "sigcomm15": SIGCOMM}


def table(name):
    with open(os.path.join(DATA, name + ".csv"), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def simulate(build, text):
    """The JSON summary of a scenario given as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([os.path.join(build, "bin", "verbena"), "sim", "--json", path],
                              capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def head(milliseconds, warm_up, profile=True):
    return (f'[scenario]\nduration = "{milliseconds}ms"\nwarm_up = "{warm_up}ms"\nsample = "5us"\n'
            + ('profile = "hpcc-ns3"\n' if profile else ""))


def host(mode, links):
    """`links`: the longest way, by which HPCC's round trip is set: 2 us and 1000 bytes for each."""
    if mode == "none":
        return '[host]\ncongestion = "none"\n'
    if mode == "hpcc":
        return ('[host]\ncongestion = "hpcc"\nheader_bytes = 90\nack_bytes = 102\n'
                'ack_priority = "same"\n[host.hpcc]\nmax_stage = 0\nadditive_rate = "40M"\n'
                f'min_rate = "1G"\nbase_round_trip = "{links * 2080}ns"\n')
    changes = MODES[mode]
    return '[host]\ncongestion = "dcqcn"\n' + (
        f'[host.dcqcn]\nprofile = "hpcc-ns3"\n{changes}' if changes else "")


def star(senders, mode, milliseconds, rate="100G", switch=""):
    return (head(milliseconds, milliseconds / 2)
            + f'[topology]\nkind = "star"\nhosts = {senders + 1}\nrate = "{rate}"\n{switch}'
            + host(mode, 2)
            + f'[[workload]]\nkind = "long"\nfrom = "0-{senders - 1}"\nto = {senders}\n')


def victim(mode, more, milliseconds=30):
    """Hosts 0, 1, 2 at one switch and 3, 4 and `more` at the other, one trunk between them."""
    links = "".join(f'[[link]]\na = "h{h}"\nb = "{"left" if h < 3 else "right"}"\n'
                    for h in range(5 + more))
    flows = "".join(f'[[flow]]\nname = "h{a} to h{b}"\nfrom = "h{a}"\nto = "h{b}"\n'
                    for a, b in [(0, 3), (1, 3), (2, 4)] + [(5 + i, 3) for i in range(more)])
    return (head(milliseconds, milliseconds / 2)
            + '[topology]\nkind = "links"\nswitches = ["left", "right"]\n' + host(mode, 3)
            + '[[link]]\na = "left"\nb = "right"\n' + links + flows)


def fat_tree(mode, seed=1):
    return (f'[scenario]\nprofile = "hpcc-ns3"\nseed = {seed}\n'
            f'[topology]\nkind = "fat-tree"\nk = 4\n[switch]\nhash_seed = {seed}\n'
            + host(mode, 6)
            + '[[workload]]\nkind = "list"\nfile = "'
            + os.path.join(DATA, "flows_ft4_ws30.csv") + '"\n')


def ring(mode, megabytes, milliseconds=20):
    return (head(milliseconds, milliseconds / 2)
            + f'[topology]\nkind = "ring"\nswitches = 5\n[switch]\nbuffer = "{megabytes}MiB"\n'
            + host(mode, 4) + '[[workload]]\nkind = "shift"\nstep = 2\n')


# Queue in KB at the fluid model's fixed point for packets of 1106 bytes, by flows: what
# tests/unit/sim/fluid_test.cc says of the solver.
FLUID_1106 = {8: 103.14, 10: 135.03}


def fluid(flows, milliseconds=200, continued=False):
    """SIGCOMM 2015 parameters with CNP packets and the byte counter: our own model. `continued`:
    marks rise by the same line four times as far."""
    line = 'max = "785KB"\nprobability = "4%"\n' if continued else (
        'max = "200KB"\nprobability = "1%"\n')
    return (head(milliseconds, milliseconds / 2, profile=False)
            + f'[topology]\nkind = "star"\nhosts = {flows + 1}\nrate = "40G"\n'
            '[switch.ecn]\nmin = "5KB"\n' + line
            + '[host]\npath_mtu = "1KiB"\n[host.dcqcn]\nprofile = "paper"\n'
            f'[[workload]]\nkind = "long"\nfrom = "0-{flows - 1}"\nto = {flows}\n')
