#!/usr/bin/env python3
"""Wireshark's dissector as a second opinion: every opcode of ours, over IPv4 and IPv6, has to be
read as InfiniBand with the fields we meant and without a malformed part.

usage: tshark_test.py EMIT_OPCODES      exit 77: no tshark here
"""
import os, shutil, subprocess, sys, tempfile

# In the order of emit_opcodes' lines. tshark prints an ICRC as a big-endian number.
FIELDS = {
    'opcode': ['infiniband.bth.opcode'],
    'pad': ['infiniband.bth.padcnt'],
    'dest_qpn': ['infiniband.bth.destqp'],
    'psn': ['infiniband.bth.psn'],
    'rkey': ['infiniband.reth.r_key'],
    'va': ['infiniband.reth.va'],
    'length': ['infiniband.reth.dmalen'],
    'qkey': ['infiniband.deth.q_key'],
    'source_qpn': ['infiniband.deth.srcqp'],
    'immediate': ['infiniband.immdt'],
    'original': ['infiniband.atomicacketh.origremdt'],
    'msn': ['infiniband.aeth.msn'],
    'icrc': ['infiniband.invariant.crc'],
}
# Guessing dissectors for the payload: they claim bytes that are only test data.
GUESSERS = ['infiniband.eoib', 'infiniband_sdp', 'fcoib', 'smc', 'smb_direct', 'rpcordma',
            'nvme-rdma', 'lnet', 'iser']
BTH_FIELDS = ('opcode', 'pad', 'dest_qpn', 'psn')


def only_bth(name):
    """tshark 4.0 knows the XRC opcodes by name but not their headers, and nothing of FLUSH, ATOMIC
    WRITE and a CNP's ICRC: it shows the BTH and stops there."""
    return name.startswith('XRC_') or name in ('CNP', 'RC_FLUSH', 'RC_ATOMIC_WRITE')


def number(field, text):
    return int(text.replace(':', ''), 16 if field == 'immediate' else 0)


def dissect(path):
    names = [n for group in FIELDS.values() for n in group]
    command = ['tshark', '-n', '-r', path, '-T', 'fields', '-E', 'separator=|']
    command += ['-E', 'occurrence=f']
    for guesser in GUESSERS:
        command += ['--disable-protocol', guesser]
    for name in ['frame.protocols', '_ws.malformed'] + names:
        command += ['-e', name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split('|') for line in done.stdout.splitlines()]


def main():
    if not shutil.which('tshark'):
        print('SKIP: tshark is not installed (1 test skipped)')
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'opcodes.pcap')
        out = subprocess.run([sys.argv[1], path], check=True, capture_output=True, text=True).stdout
        expected = [line.split() for line in out.splitlines()]
        rows = dissect(path)
    wrong = 0 if len(rows) == len(expected) else 1
    if wrong:
        print(f'{len(expected)} packets written, tshark shows {len(rows)}')
    compared = 0
    for want, row in zip(expected, rows):
        name, malformed, found = want[0], row[1], dict(zip(FIELDS, row[2:]))
        problems = []
        if 'infiniband' not in row[0]:
            problems.append(f'read as {row[0]}')
        if malformed:
            problems.append('malformed')
        for field, value in zip(FIELDS, want[1:]):
            if only_bth(name) and field not in BTH_FIELDS:
                continue
            if value == '-' and not found[field]:
                continue
            if value == '-' or not found[field] or number(field, found[field]) != int(value):
                problems.append(f'{field}: {found[field] or "absent"}, meant {value}')
            compared += 1
        if problems:
            wrong += 1
            print(f'{name}: ' + '; '.join(problems))
    partly = sum(only_bth(want[0]) for want in expected)
    print(f'{len(expected)} packets ({partly} of opcodes whose BTH alone tshark reads), '
          f'{compared} fields compared, {wrong} wrong')
    return 1 if wrong or compared == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
