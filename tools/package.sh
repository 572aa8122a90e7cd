#!/usr/bin/env bash
# Packs both programs with the small libraries they need into a relocatable archive; LibTorch is taken at run time from
# LOCKSTEP_TORCH_DIR.
#   tools/package.sh BUILD_FOLDER     prints the path of the archive
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "$1" && pwd)
version=$("$build/lockstep" --version | awk '$1 == "lockstep" && !found++ {print $2}')
name=lockstep-$version-$(uname -m)
stage=$build/package/$name
rm -rf "$build/package"; mkdir -p "$stage"/{bin,lib,share/lockstep}

# Taken from the system (the C library) or from LOCKSTEP_TORCH_DIR at run time; everything else travels along.
stays='linux-vdso|ld-linux|libc\.so|libm\.so|libutil\.so|libdl\.so|libpthread\.so|librt\.so|libresolv\.so|libtorch|libc10'
stays+='|libnccl|libcud|libcu|libnv|libgomp'
# awk reads to the end everywhere: a reader that ends early ends its writer by a signal, and pipefail this script.
# add_libraries FILE: what it is linked with.
add_libraries() {
  LD_LIBRARY_PATH=${LOCKSTEP_TORCH_DIR:+$LOCKSTEP_TORCH_DIR/torch/lib:$LOCKSTEP_TORCH_DIR/lib} ldd "$1" |
    awk '$3 ~ /^\// {print $1, $3}' | grep -vE "^($stays)" | while read -r library path; do
      [ -e "$stage/lib/$library" ] || install -m 644 "$(realpath "$path")" "$stage/lib/$library"
    done
}
for program in lockstep lockstep-engine; do
  install -m 755 "$build/$program" "$stage/bin/"
  strip "$stage/bin/$program"
  add_libraries "$build/$program"
done
# The programs load it when they need it. The system's own would meet the libcrypto of this archive.
curl=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '$1 == "libcurl.so.4" && !found++ {print $NF}')
[ -n "$curl" ] || { echo "package.sh: libcurl.so.4 is missing" >&2; exit 6; }
install -m 644 "$(realpath "$curl")" "$stage/lib/libcurl.so.4"
add_libraries "$curl"
# DT_RPATH, not DT_RUNPATH: it also holds for the libraries of the libraries and is searched before the caller's
# library path.
for program in "$stage"/bin/*; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$program"; done
for library in "$stage"/lib/*; do patchelf --force-rpath --set-rpath '$ORIGIN' "$library"; done

# The licence of a shipped library, as its Debian package states it; /lib is a link to /usr/lib on merged systems.
licence_of() {
  local package
  package=$(dpkg -S "$1" 2>/dev/null || dpkg -S "${1#/usr}" 2>/dev/null) || return 0
  cp "/usr/share/doc/${package%%:*}/copyright" "$stage/share/lockstep/licences/${package%%:*}.txt"
}
mkdir -p "$stage/share/lockstep/licences"
for library in "$stage"/lib/*; do
  path=$(ldconfig -p | awk -v name="$(basename "$library")" '$1 == name && !found++ {print $NF}')
  [ -z "$path" ] || licence_of "$(realpath "$path")"
done
licence_of /usr/include/nlohmann/json.hpp
# The texts that those files only name.
for text in GPL-3 LGPL-2 LGPL-2.1; do
  [ ! -e "/usr/share/common-licenses/$text" ] || cp "/usr/share/common-licenses/$text" "$stage/share/lockstep/licences/"
done

assets=${LOCKSTEP_ASSETS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/clip-assets-3.3.0}
cp "$assets"/*.gz "$assets"/*.txt "$stage/share/lockstep/"
cp -r "$root/examples" "$root/recipes" "$stage/share/lockstep/"
cp "$root"/{*.md,LICENSE,NOTICE,CITATION.cff} "$stage/share/lockstep/"
cp -r "$root/docs" "$stage/share/lockstep/"
tar -C "$build/package" --sort=name --owner=0 --group=0 --numeric-owner -czf "$build/$name.tar.gz" "$name"
rm -rf "$build/package"
echo "$build/$name.tar.gz"
