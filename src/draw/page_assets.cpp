#include "draw/page_assets.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

#include "draw/palette.h"
#include "page_assets_text.h"

namespace lockstep::draw {
namespace {

std::string variables(const Theme& theme) {
  std::string text = fmt::format(
      "--paper:{};--raised:{};--ink:{};--muted:{};--link:{};--axis:{};--grid:{};--region:{};--note:{};--warning:{};--"
      "edge:{}33;--hover:{}14;",
      theme.paper.hex(), theme.raised.hex(), theme.ink.hex(), theme.muted.hex(), theme.link.hex(), theme.axis.hex(),
      theme.grid.hex(), theme.region.hex(), theme.note.hex(), theme.warning.hex(), theme.ink.hex(), theme.ink.hex());
  const auto add = [&](char letter, const std::vector<Rgb>& colours) {
    for (size_t index = 0; index < colours.size(); ++index)
      text += fmt::format("--{0}{1}:{2};--o{0}{1}:{3};", letter, index, colours[index].hex(),
                          text_on(colours[index]).hex());
  };
  add('s', theme.categorical);
  add('q', theme.sequential);
  return text;
}

}  // namespace

std::string page_style() {
  const std::string light = variables(light_theme()), dark = variables(dark_theme());
  std::string style = fmt::format(
      ":root{{color-scheme:light;{}}}\n@media screen and "
      "(prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{}}}}}\n"
      "@media screen{{:root[data-theme=dark]{{color-scheme:dark;{}}}}}\n",
      light, dark, dark);
  const auto add = [&](char letter, size_t count) {
    for (size_t index = 0; index < count; ++index)
      style += fmt::format(".{0}{1}{{--c:var(--{0}{1})}}.chart .on-{0}{1}{{fill:var(--o{0}{1})}}", letter, index);
  };
  add('s', light_theme().categorical.size());
  add('q', light_theme().sequential.size());
  style += assets::kPageCss;
  return style;
}

std::string_view page_script() { return assets::kPageJs; }

std::string csp_hash(std::string_view content) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), digest.size());
  return "sha256-" + std::string(base64.begin(), base64.begin() + length);
}

}  // namespace lockstep::draw
