# Lists the skipped cases in ctest's log (Testing/Temporary/LastTest.log), of GoogleTest, Python's
# unittest, programs that end with 77 after a line "SKIP: reason", and rdma-core's suite, and counts
# them.
#   awk -f scripts/skipped.awk LOG

function report(name, reason) {
  if (reason == "") reason = "no reason given"
  printf "Skipped: %s: %s: %s\n", test, name, reason
  ++count
}

/^[0-9]+\/[0-9]+ Test(ing)?: / { test = $3; reason = ""; inside = 0; name = "" }

# GoogleTest prints the file, "Skipped" and the reason, then the case with its time.
/^\[ RUN      \] / { inside = 0; reason = "" }
/: Skipped$/ { inside = 1; reason = ""; next }
/^\[  SKIPPED \] .*\([0-9]+ ms\)$/ {
  sub(/^\[  SKIPPED \] /, "")
  sub(/ \([0-9]+ ms\)$/, "")
  sub(/, where (GetParam|TypeParam).*/, "")
  report($0, reason)
  inside = 0
  next
}
inside && /[^ ]/ { reason = reason (reason == "" ? "" : " ") $0; next }

# unittest -v: the case, its first sentence on a line of its own if it has one, and the outcome.
/^[A-Za-z_][A-Za-z0-9_]* \([A-Za-z0-9_.]+\)/ { name = $1 }
/ \.\.\. skipped ['"].*['"]$/ {
  text = $0
  sub(/^.* \.\.\. skipped ['"]/, "", text)
  sub(/['"]$/, "", text)
  report(name, text)
  next
}

# Cases of a suite that one of our tests runs.
/^SKIPPED BY [^ ]+ [^ ]+: / {
  name = $4
  sub(/:$/, "", name)
  sub(/^SKIPPED BY [^ ]+ [^ ]+: /, "")
  report(name, $0)
  next
}

/^SKIP: / { report("all", substr($0, 7)) }

# A test that is a run of tests (scripts/sanitize): what was skipped there, and what it left out.
/^Skipped: / { printf "Skipped: %s: %s\n", test, substr($0, 10); ++count }
/^Left to / { printf "%s: %s\n", test, $0; ++left }

END {
  if (left && !count) printf "\n"
  if (count) printf "\nSkipped cases: %d (listed above; a program may pass without them)\n\n", count
}
