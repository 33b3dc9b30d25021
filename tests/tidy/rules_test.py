#!/usr/bin/env python3
"""Tests the tidy test: a checker that finds nothing because it looks at nothing is worse than none.
"""
import os, sys, unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy_test
from functions import functions

RULES = {
    'rooms': {'base': [], 'wire': ['base'], 'engine': ['wire'], 'tools': ['*'],
              'link': ['engine/transfer.h']},
    'no_system': {'rooms': ['wire'], 'headers': ['sys/', 'thread']},
    'limits': {'columns': 100, 'file_lines': 9, 'function_lines': 4},
}


def problems(path, text):
    found = []
    tidy_test.check_text(path, text, RULES, lambda _, line, problem: found.append((line, problem)))
    return found


class TidyRules(unittest.TestCase):
    def test_rooms(self):
        self.assertEqual(problems('src/wire/a.h', '// Why.\n#include "base/x.h"\n'), [])
        self.assertEqual(problems('src/wire/a.h', '// Why.\n#include "engine/x.h"\n'),
                         [(2, 'wire may not include engine/x.h')])
        self.assertEqual(problems('src/tools/a.h', '// Why.\n#include "engine/x.h"\n'), [])
        self.assertEqual(problems('src/link/a.h', '// Why.\n#include "engine/transfer.h"\n'), [])
        self.assertEqual(len(problems('src/link/a.h', '// Why.\n#include "engine/verbs.h"\n')), 1)
        self.assertEqual(len(problems('src/attic/a.h', '// Why.\n')), 1)

    def test_sans_io(self):
        self.assertEqual(problems('src/wire/a.cc', '// Why.\n#include <thread>\n'),
                         [(2, 'sans-IO room wire includes <thread>')])
        self.assertEqual(len(problems('src/wire/a.cc', '// Why.\n#include <sys/uio.h>\n')), 1)
        self.assertEqual(problems('src/base/a.cc', '// Why.\n#include <thread>\n'), [])

    def test_text(self):
        self.assertEqual(len(problems('src/base/a.cc', 'int a;\n')), 1)
        self.assertEqual(len(problems('src/base/a.cc', '// Why.\n//' + 'x' * 99 + '\n')), 1)
        self.assertEqual(len(problems('src/base/a.cc', '// Why. TO' + 'DO\n')), 1)
        self.assertEqual(len(problems('src/base/a.cc', '// Why.\n' * 10)), 1)
        self.assertEqual(problems('tests/a.py', '#!/usr/bin/env python3\n"""Why."""\n'), [])

    def test_function_length(self):
        text = '''// Why.
namespace a { class B {
  int f(int x) const { return x; }
  int data[2] = {1, 2};
  void g() {
    if (f(1)) { f(2); }
    char c = '{'; const char* s = "}{"; // }
    f(3);
  }
}; }
'''
        self.assertEqual([(a, b) for a, b, _ in functions(text)], [(3, 3), (5, 9)])
        self.assertIn((5, 'function of 5 lines, limit 4: void g()'), problems('src/base/a.h', text))


if __name__ == '__main__':
    unittest.main()
