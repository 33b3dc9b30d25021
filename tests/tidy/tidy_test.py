#!/usr/bin/env python3
"""Holds the source tree to the rules of the house: which room includes which, what a sans-IO room
may not include, size limits, opening comments, words that mark unfinished work.

usage: tidy_test.py [REPOSITORY]      prints one line per violation; exit status 1 if there is any
"""
import os, re, sys, tomllib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from functions import functions

CODE = ('.h', '.cc', '.c')
SCRIPTS = ('.py', '.sh', '.cmake', '.toml', '.txt', '.map')
FOLDERS = ('src', 'tests', 'bench', 'cmake', 'scripts', 'scenarios')
SKIPPED = {'golden', 'corpus', '__pycache__', 'data'}
UNFINISHED = re.compile(r'\b(' + '|'.join(['TO' + 'DO', 'FIX' + 'ME', 'X' * 3]) + r')\b')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files(root):
    for folder in FOLDERS:
        for path, names, members in os.walk(os.path.join(root, folder)):
            names[:] = sorted(n for n in names if n not in SKIPPED)
            for member in sorted(members):
                if member.endswith(CODE + SCRIPTS) or folder in ('scripts', 'bench'):
                    yield os.path.relpath(os.path.join(path, member), root)


def opens_with_comment(path, lines):
    at = 1 if lines and lines[0].startswith('#!') else 0
    first = lines[at].strip() if len(lines) > at else ''
    if path.endswith(CODE):
        return first.startswith(('//', '/*'))
    if path.endswith('.map'):
        return first.startswith(('/*', '#'))
    return first.startswith(('#', '"""', "'''"))


def allowed(room, target, rules):
    may = rules['rooms'][room]
    return '*' in may or target in may or target.split('/')[0] in [room] + may


def check_includes(path, lines, rules, report):
    parts = path.split('/')
    if parts[0] != 'src' or len(parts) < 3:
        return
    room = parts[1]
    if room not in rules['rooms']:
        report(path, 1, f'room {room} is not in tests/tidy/rooms.toml')
        return
    pure = room in rules['no_system']['rooms']
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, target = match.groups()
        if kind == '"' and target.split('/')[0] in rules['rooms']:
            if not allowed(room, target, rules):
                report(path, number, f'{room} may not include {target}')
        elif kind == '<' and pure:
            banned = [h for h in rules['no_system']['headers']
                      if target == h or (h.endswith('/') and target.startswith(h))]
            if banned:
                report(path, number, f'sans-IO room {room} includes <{target}>')


def check_text(path, text, rules, report):
    lines, limits = text.splitlines(), rules['limits']
    if lines and not opens_with_comment(path, lines):
        report(path, 1, 'does not open with a comment that says why it exists')
    for number, line in enumerate(lines, 1):
        if len(line) > limits['columns'] and 'http' not in line:
            report(path, number, f'{len(line)} columns, limit {limits["columns"]}')
        if UNFINISHED.search(line):
            report(path, number, f'unfinished work: {UNFINISHED.search(line).group()}')
    if not path.endswith(CODE):
        return
    if len(lines) > limits['file_lines']:
        report(path, len(lines), f'{len(lines)} lines, limit {limits["file_lines"]}')
    check_includes(path, lines, rules, report)
    for first, last, head in functions(text):
        if last - first + 1 > limits['function_lines']:
            report(path, first, f'function of {last - first + 1} lines, limit '
                                f'{limits["function_lines"]}: {head[:50]}')


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here))
    with open(os.path.join(here, 'rooms.toml'), 'rb') as rules_file:
        rules = tomllib.load(rules_file)
    violations = []
    checked = 0
    for path in files(root):
        checked += 1
        try:
            with open(os.path.join(root, path), encoding='utf-8') as source:
                text = source.read()
        except UnicodeDecodeError:
            violations.append((path, 1, 'is not UTF-8 text'))
            continue
        check_text(path, text, rules, lambda *v: violations.append(v))
    for path, number, problem in violations:
        print(f'{path}:{number}: {problem}')
    print(f'{checked} files checked, {len(violations)} violations')
    return 1 if violations or checked == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
