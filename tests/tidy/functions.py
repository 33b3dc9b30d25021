"""Finds functions in C and C++ text well enough to measure them: comments and literals are
blanked, then braces are followed. Not a parser; a brace it misreads only makes a function longer.
"""
import re

_TOKENS = re.compile(
    r'R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
_SCOPE = re.compile(r'\b(namespace|class|struct|union|enum|extern)\b')


def blank(text):
    """The text with comments and literals as spaces; lines stay where they are."""
    return _TOKENS.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), text)


def _kind(head):
    """What a brace opens, from the text between the last ; { } and it."""
    head = re.sub(r'^\s*#.*$', '', head, flags=re.M).strip()
    if head.endswith('=') or head.endswith(',') or head.endswith('('):
        return 'data'
    if ')' in head:
        return 'data' if re.search(r'=\s*[\w:<>, ]*$', head) else 'function'
    return 'scope' if _SCOPE.search(head) else 'data'


def functions(text):
    """(first line, last line, head) of every outermost function body."""
    clean, stack, start, line = blank(text), [], 0, 1
    for at, char in enumerate(clean):
        if char == '\n':
            line += 1
        elif char == '{':
            head = clean[start:at]
            inside = any(kind == 'function' for kind, _, _ in stack)
            kind = 'inner' if inside else _kind(head)
            first = line - head.lstrip().count('\n')
            stack.append((kind, first, ' '.join(head.split())))
            start = at + 1
        elif char == '}':
            if stack:
                kind, first, head = stack.pop()
                if kind == 'function':
                    yield first, line, head
            start = at + 1
        elif char == ';':
            start = at + 1
