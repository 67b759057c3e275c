#!/usr/bin/env bash
# Builds the fuzz targets with clang, runs each for a while and prints the line coverage of the parsers by the kept
# corpus. usage: tests/fuzz/run.sh [SECONDS] [TARGET...]      (default: 60 seconds each, all targets; 0: coverage only)
# New inputs that reach new code are left in build/fuzz/found/TARGET; a crash is left there too and fails the run.
# Coverage below MIN_COVERAGE (80) percent of a target's lines fails it.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
build=${INGOT_FUZZ_BUILD:-build/fuzz}
minimum=${MIN_COVERAGE:-80}
suffix=${LLVM_SUFFIX:--19}

# The sources that a target is there for: the paths in its first comment behind "coverage:".
sources_of() {
  awk '!/^\/\// { exit } { for (i = 2; i <= NF; i++) { if (on) print $i; if ($i == "coverage:") on = 1 } }' \
    "tests/fuzz/$1_fuzz.cpp" | tr '\n' ' '
}

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done
fi
programs=("${targets[@]/%/_fuzz}")

cmake --preset fuzz -B "$build" > /dev/null
cmake --build "$build" --target "${programs[@]}"

status=0
for target in "${targets[@]}"; do
  corpus=tests/fuzz/corpus/$target
  if [ "$seconds" -gt 0 ]; then
    mkdir -p "$build/found/$target"
    LLVM_PROFILE_FILE=/dev/null "$build/${target}_fuzz" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=512 -max_len=8192 \
      -print_final_stats=1 -artifact_prefix="$build/found/$target/" "$build/found/$target" "$corpus" 2>&1 | tail -n 12 || status=1
  fi
  profile=$build/$target
  LLVM_PROFILE_FILE=$profile.profraw "$build/${target}_fuzz" -runs=0 "$corpus" > /dev/null 2>&1 || status=1
  "llvm-profdata$suffix" merge -sparse "$profile.profraw" -o "$profile.profdata"
  read -r -a sources <<< "$(sources_of "$target")"
  "llvm-cov$suffix" report "$build/${target}_fuzz" -instr-profile="$profile.profdata" "${sources[@]}" \
    > "$profile.coverage.txt"
  # The TOTAL line: regions, missed, percent; functions, missed, percent; lines, missed, percent.
  percent=$(awk '/^TOTAL/ { sub("%", "", $10); print $10 }' "$profile.coverage.txt")
  echo "$target: $percent % of the lines of ${sources[*]} by $(find "$corpus" -type f | wc -l) kept inputs"
  awk -v p="$percent" -v m="$minimum" 'BEGIN { exit !(p >= m) }' || { echo "$target: below $minimum %"; status=1; }
done
exit $status
