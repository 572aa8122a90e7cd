# Sourced by ./run, ./test and ref/: installs what is missing and builds. Needs bash; safe to repeat; reuses what is there.
# Sets: LOCKSTEP_ROOT, LOCKSTEP_TORCH_DIR, LOCKSTEP_BUILD (build folder).
set -euo pipefail
LOCKSTEP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOCKSTEP_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
LOCKSTEP_BUILD=${LOCKSTEP_BUILD:-$LOCKSTEP_ROOT/build}

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'lockstep: %s\n' "$*" >&2; exit 6; }

# install_packages <list> [optional]: optional ones that cannot be installed are only told.
install_packages() {
  command -v dpkg-query >/dev/null || { say "no Debian package manager here: expecting the libraries of CONTRIBUTING.md to be loaded"; return; }
  local list=$1 is_optional=${2:-} missing=() package
  for package in $(grep -v '^#' "$LOCKSTEP_ROOT/tools/$list"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then as_root=(sudo)
    elif [ -n "$is_optional" ]; then say "not installed, so tests that need them are skipped: ${missing[*]}"; return
    else fail "missing packages, and neither root nor password-less sudo to install them. Run:
  sudo apt-get install ${missing[*]}"; fi
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

# pip_into <folder> <what for> <pip arguments...>: installs into a folder that either exists whole or not at all; one process at a time.
pip_into() {
  local folder=$1 what=$2; shift 2
  [ -d "$folder" ] && return
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"; flock 9
  if [ ! -d "$folder" ]; then
    say "installing $what (once per user)"
    rm -rf "$folder.partial"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$folder.partial" "$@" >&2
    mv "$folder.partial" "$folder"
  fi
  exec 9>&-
}

find_torch() {
  if [ -z "${LOCKSTEP_TORCH_DIR:-}" ]; then
    LOCKSTEP_TORCH_DIR=$LOCKSTEP_CACHE/torch-2.11.0
    pip_into "$LOCKSTEP_TORCH_DIR" "LibTorch 2.11.0, about 3 GB" --no-deps -r "$LOCKSTEP_ROOT/tools/torch-requirements.txt"
  fi
  export LOCKSTEP_TORCH_DIR
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
  cmake --build "$LOCKSTEP_BUILD" ${1:+--target "$@"} >&2 || fail "the build failed; the compiler's output is above"
}

setup() {
  install_packages packages.txt
  find_torch
  fetch_assets
  build "$@"
}
