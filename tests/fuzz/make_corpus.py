#!/usr/bin/env python3
"""Makes the seeds of the wire targets: one packet of every opcode, frames around some of them, and
captures, all from emit_opcodes, so that a fuzzer starts inside every branch of the parsers.

usage: make_corpus.py EMIT_OPCODES CORPUS_FOLDER
"""
import os, struct, subprocess, sys, tempfile

FRAME_SEEDS = {'RC_SEND_ONLY', 'RC_WRITE_ONLY_IMM', 'RC_FETCH_ADD', 'UD_SEND_ONLY', 'CNP'}


def records(capture):
    at = 24
    while at < len(capture):
        length = struct.unpack_from('<I', capture, at + 8)[0]
        yield capture[at:at + 16 + length]
        at += 16 + length


def save(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), 'wb') as out:
        out.write(data)


def main():
    emit, corpus = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'all.pcap')
        out = subprocess.run([emit, path], check=True, capture_output=True, text=True).stdout
        with open(path, 'rb') as capture_file:
            capture = capture_file.read()
    kept = capture[:24]
    for line, record in zip(out.splitlines(), records(capture)):
        name, frame = line.split()[0], record[16:]
        ipv6 = frame[12:14] == b'\x86\xdd'
        if not ipv6:
            save(os.path.join(corpus, 'packet'), name, frame[42:])
        if name in FRAME_SEEDS:
            seed = name + ('_v6' if ipv6 else '_v4')
            save(os.path.join(corpus, 'frame'), seed, frame)
            tagged = frame[:12] + b'\x81\x00\x60\x05' + frame[12:]
            save(os.path.join(corpus, 'frame'), seed + '_vlan', tagged)
            save(os.path.join(corpus, 'frame'), seed + '_ip', frame[14:])
            kept += record
    save(os.path.join(corpus, 'pcap'), 'nanoseconds', kept)
    save(os.path.join(corpus, 'pcap'), 'microseconds', b'\xd4\xc3\xb2\xa1' + kept[4:])
    save(os.path.join(corpus, 'pcap'), 'cut', kept[:-7])
    swapped = b''.join(struct.pack('>I', v) for v in (0xa1b2c3d4, 0x00020004, 0, 0, 65535, 1))
    save(os.path.join(corpus, 'pcap'), 'big_endian',
         swapped + struct.pack('>IIII', 1, 2, 3, 3) + b'abc')


if __name__ == '__main__':
    main()
