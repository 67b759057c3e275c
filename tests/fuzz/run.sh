#!/usr/bin/env bash
# Builds the fuzz targets with clang, runs each for a while and prints the line coverage of the parsers by the kept
# corpus. usage: tests/fuzz/run.sh [SECONDS] [TARGET...]      (default: 60 seconds each, all targets; 0: coverage only)
# New inputs that reach new code are left in build/fuzz/found/TARGET; a crash is left there too and fails the run.
# Coverage below MIN_COVERAGE (80) percent of a target's lines fails it. An input has a second, ten for a target whose
# first comment says "slow:".
#        tests/fuzz/run.sh --can                       whether there is a compiler for it
#        tests/fuzz/run.sh --built FOLDER SECONDS      targets that are built already: the kept inputs of each as they
#                                                      are, then so many seconds for all of them together, on all
#                                                      cores; no coverage; an input has ten seconds, since what else
#                                                      the machine does is not known. The inputs follow from the
#                                                      commit, or from INGOT_FUZZ_SEED: a line tells it
set -euo pipefail
cd "$(dirname "$0")/../.."

# fuzz TARGET SECONDS: its last lines; the status of the run.
fuzz() {
  local each=1
  if [ -n "${patient-}" ] || sed '/^[^/]/q' "tests/fuzz/$1_fuzz.cpp" | grep -q "slow:"; then each=10; fi
  mkdir -p "$build/found/$1"
  LLVM_PROFILE_FILE=/dev/null "$build/$1_fuzz" -max_total_time="$2" -timeout=$each -rss_limit_mb=512 -max_len=8192 ${seed:+-seed=$seed} \
    -print_final_stats=1 -artifact_prefix="$build/found/$1/" "$build/found/$1" "tests/fuzz/corpus/$1" 2>&1 | tail -n "${3:-12}"
}

# replay TARGET: every kept input, whole (fuzz cuts what is longer than max_len).
replay() {
  local inputs=("tests/fuzz/corpus/$1/"*)
  if [ ! -f "${inputs[0]}" ]; then
    echo "$1 has no kept inputs"
    return 1
  fi
  "$build/$1_fuzz" -timeout=10 -rss_limit_mb=512 -artifact_prefix="$build/found/$1/" "${inputs[@]}" 2>&1 | tail -n 40 || return
  echo "kept_inputs ${#inputs[@]}"
}

# commit_seed: 1 to 2^28, of the commit; of a tree without one 1.
commit_seed() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) || commit=0
  echo $((0x${commit:0:7} + 1))
}

if [ "${1-}" = --can ]; then
  program=$(mktemp)
  trap 'rm -f "$program"' EXIT
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++-19 -x c++ -fsanitize=fuzzer,address,undefined -o "$program" - 2>/dev/null
  exit
fi
if [ "${1-}" = --built ]; then
  # Each commit has inputs of its own, and the same each time, as far as the seconds reach: what a change must pass may
  # not depend on chance, and many changes try much. 0 would be a seed of the clock.
  build=$2 patient=1
  seed=${INGOT_FUZZ_SEED:-$(commit_seed)}
  echo "seed $seed (INGOT_FUZZ_SEED=$seed tries the same inputs again)"
  targets=(tests/fuzz/*_fuzz.cpp)
  cores=$(nproc)
  share=$(($3 * cores / ${#targets[@]}))
  if [ "$share" -lt 1 ]; then share=1; fi  # to libFuzzer 0 is no limit
  status=0 running=()
  for folder in tests/fuzz/corpus/*/; do
    if [ ! -f "tests/fuzz/$(basename "$folder")_fuzz.cpp" ]; then
      echo "$folder: there is no such target"
      status=1
    fi
  done
  for source in "${targets[@]}"; do
    target=$(basename "$source" _fuzz.cpp)
    mkdir -p "$build/found/$target"
    { replay "$target" && fuzz "$target" "$share" 40; } >"$build/$target.fuzz.log" &
    running+=("$!:$target")
    if [ ${#running[@]} -lt "$cores" ] && [ "$source" != "${targets[-1]}" ]; then continue; fi
    for job in "${running[@]}"; do
      if wait "${job%%:*}"; then
        awk -v target="${job#*:}" -v seconds="$share" '/^kept_inputs/ { kept = $2 } /number_of_executed_units/ { new = $2 }
          END { print target ": " kept " kept inputs; " new " in " seconds " s" }' "$build/${job#*:}.fuzz.log"
      else
        cat "$build/${job#*:}.fuzz.log"
        echo "${job#*:}: an input was found, in $build/found/${job#*:}"
        status=1
      fi
    done
    running=()
  done
  exit $status
fi
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
  if [ "$seconds" -gt 0 ]; then fuzz "$target" "$seconds" || status=1; fi
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
