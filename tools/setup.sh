# Sourced by ./run, ./test and ref/: installs what is missing and builds. Needs bash; safe to repeat; reuses what is there.
# Sets: LOCKSTEP_ROOT, LOCKSTEP_TORCH_DIR, LOCKSTEP_BUILD (build folder).
# Says what it will install before it does, and asks where somebody sits at a terminal; LOCKSTEP_YES=1 answers.
set -euo pipefail
LOCKSTEP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOCKSTEP_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
LOCKSTEP_BUILD=${LOCKSTEP_BUILD:-$LOCKSTEP_ROOT/build}

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'lockstep: %s\n' "$*" >&2; exit 6; }

# agree <what>: says what will be installed. Asks on a terminal; where nobody could answer, goes on. 1: the user declined.
agree() {
  say "to be installed: $1"
  if [ -n "${LOCKSTEP_YES:-}" ] || ! [ -t 0 ] || ! [ -t 2 ]; then return 0; fi
  local answer
  read -r -p "   Go on? [Y/n] (--yes answers) " answer || return 1
  case $answer in "" | [yY]*) return 0 ;; *) return 1 ;; esac
}

# install_packages <list> <what for> [optional]: without the optional ones some tests are skipped.
install_packages() {
  command -v dpkg-query >/dev/null || { say "no Debian package manager here: expecting the libraries of CONTRIBUTING.md to be loaded"; return; }
  local list=$1 purpose=$2 is_optional=${3:-} missing=() package
  for package in $(grep -v '^#' "$LOCKSTEP_ROOT/tools/$list"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  local as_root=() command="apt-get install ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then as_root=(sudo)
    elif [ -n "$is_optional" ]; then say "not installed, so tests that need them are skipped: ${missing[*]}"; return
    else fail "missing packages, and neither root nor password-less sudo to install them. Run:
  sudo $command"; fi
  fi
  if ! agree "${#missing[@]} Debian packages, as root: $purpose
   ${missing[*]}"; then
    [ -n "$is_optional" ] && { say "not installed, so tests that need them are skipped"; return; }
    fail "these packages are needed. To install them yourself:
  $command"
  fi
  "${as_root[@]}" apt-get update -q >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

# pip_into <folder> <what> <requirements file with hashes>: the folder either exists whole or not at all; one process at a time.
pip_into() {
  local folder=$1 what=$2 list=$LOCKSTEP_ROOT/$3
  [ -d "$folder" ] && return
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock 9 || say "no file locks under $folder: let only one set-up run at a time"
  if [ ! -d "$folder" ]; then
    agree "$what, with pip into $folder (once per user)" || fail "it is needed; CONTRIBUTING.md says how to bring your own"
    rm -rf "$folder.partial"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary :all: --no-deps \
      --target "$folder.partial" -r "$list" >&2 || return 1
    mv "$folder.partial" "$folder"
  fi
  exec 9>&-
}

find_torch() {
  if [ -z "${LOCKSTEP_TORCH_DIR:-}" ]; then
    LOCKSTEP_TORCH_DIR=$LOCKSTEP_CACHE/torch-2.11.0
    pip_into "$LOCKSTEP_TORCH_DIR" "LibTorch 2.11.0, about 3 GB" tools/torch-requirements.txt
  fi
  export LOCKSTEP_TORCH_DIR
}

# What the tests of remote copies run against; without it they are skipped.
find_s3_server() {
  [ -n "${LOCKSTEP_MOTO_DIR:-}" ] && return
  (pip_into "$LOCKSTEP_CACHE/s3-server-moto-5.2.5" "moto 5.2.5, an S3 server for the tests, 60 MB" tools/moto-requirements.txt) ||
    say "not installed, so tests that need an S3 server are skipped"
}

fetch_assets() {
  python3 "$LOCKSTEP_ROOT/tools/fetch_clip_assets.py" "$LOCKSTEP_CACHE/clip-assets-3.3.0" >&2
}

# build [target...]
build() {
  say "building into ${LOCKSTEP_BUILD#"$PWD"/} (a first build takes some minutes, later ones seconds)"
  export NINJA_STATUS='   %u steps left, %es  '
  cmake -S "$LOCKSTEP_ROOT" -B "$LOCKSTEP_BUILD" -G Ninja -DLOCKSTEP_TORCH_DIR="$LOCKSTEP_TORCH_DIR" >"$LOCKSTEP_BUILD.configure.log" 2>&1 ||
    { cat "$LOCKSTEP_BUILD.configure.log" >&2; fail "CMake could not configure the build; its output is above"; }
  rm -f "$LOCKSTEP_BUILD.configure.log"
  # One compiler a core: ninja's own two more only take each other's cache.
  cmake --build "$LOCKSTEP_BUILD" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" ${1:+--target "$@"} >&2 || fail "the build failed; the compiler's output is above"
}

# test_targets [name...]: what ./test builds for these tests; nothing, which is everything, for none.
test_targets() {
  local name
  for name in "$@"; do
    case $name in
      commands | slurm) echo lockstep lockstep-engine "test_$name" ;;
      additions | storm) echo lockstep lockstep-engine ;;
      setup | includes | checks | stray_tests | unused | fuzz_table) echo lockstep ;;  # scripts
      *) echo "test_$name" ;;
    esac
  done
}

setup() {
  install_packages packages.txt "the compiler and the libraries that lockstep is built with"
  find_torch
  fetch_assets
  build "$@"
}
