#include <fmt/format.h>

#include "report/page_assets.h"
#include "report/palette.h"

namespace lockstep::report {
namespace {

constexpr std::string_view kRules = R"css(
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;font-variant-numeric:tabular-nums}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem;top:0;padding:.5rem 1rem;background:var(--paper);z-index:9}
.skip:focus{left:0}
.frame{max-width:96rem;margin:0 auto;padding:0 1rem}
header{padding:2.2rem 0 1.1rem;border-bottom:1px solid var(--grid);display:flex;gap:1rem;align-items:flex-start;justify-content:space-between;flex-wrap:wrap}
header>div{flex:1 1 18rem;min-width:0}
h1{font-size:1.9rem;line-height:1.2;letter-spacing:-.015em;margin:0;overflow-wrap:anywhere}
.sub{margin:.4rem 0 0;color:var(--muted);overflow-wrap:anywhere}
h2{font-size:1.35rem;line-height:1.3;letter-spacing:-.01em;margin:2.6rem 0 .8rem;overflow-wrap:anywhere}
h3{font-size:1.02rem;line-height:1.35;margin:0 0 .5rem;overflow-wrap:anywhere}
p{margin:.6rem 0;max-width:46rem;overflow-wrap:anywhere}
nav{font-size:.9rem;padding:1rem 0}
nav p{margin:0 0 .4rem;font-weight:600}
nav ul{list-style:none;margin:0;padding:0}
nav li{margin:.15rem 0}
nav ul ul{padding-left:.9rem}
nav a{text-decoration:none;overflow-wrap:anywhere}
nav a:hover{text-decoration:underline}
nav ul ul a{color:var(--muted)}
main{min-width:0;padding-bottom:3rem}
main:focus{outline:none}
figure,.table{margin:1.6rem 0 2.2rem;min-width:0}
figcaption,.cap{color:var(--muted);font-size:.9rem;max-width:46rem;margin:.5rem 0;overflow-wrap:anywhere}
.plot svg{display:block;width:100%;height:auto}
.wide{max-width:70rem}
.narrow{display:none;max-width:34rem}
.chart .series{stroke:var(--c);fill:var(--c)}
.chart .ink{fill:var(--ink)}.chart .muted{fill:var(--muted)}
.chart .axis{stroke:var(--axis)}.chart .grid{stroke:var(--grid)}
.chart .region{fill:var(--region)}
.chart .halo,.chart .hatch,.chart .rim{stroke:var(--paper)}
.chart .off{visibility:hidden}.chart .key.off{visibility:visible;opacity:.35}
.chart .pt:focus{outline:2px solid var(--link);outline-offset:1px;stroke:var(--ink);stroke-width:2.5;stroke-opacity:1}
.ref{--c:var(--axis)}
.scroll{overflow-x:auto;max-width:100%;border:1px solid var(--grid);border-radius:6px;background:linear-gradient(90deg,var(--paper) 30%,transparent) 0 0/3rem 100% no-repeat local,linear-gradient(270deg,var(--paper) 30%,transparent) 100% 0/3rem 100% no-repeat local,linear-gradient(90deg,var(--edge),transparent) 0 0/.9rem 100% no-repeat,linear-gradient(270deg,var(--edge),transparent) 100% 0/.9rem 100% no-repeat}
table{border-collapse:collapse;font-size:.84rem;line-height:1.4;min-width:100%}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{padding:.36rem .55rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid);vertical-align:baseline}
tbody tr:last-child>*{border-bottom:0}
thead th{font-weight:600;border-bottom:1px solid var(--axis);vertical-align:bottom;white-space:normal;overflow-wrap:normal;word-break:normal;hyphens:none;min-width:2.6rem}
@media screen{.many{font-size:.78rem}.many th,.many td{padding:.32rem .38rem}.most{font-size:.72rem}.most th,.most td{padding:.3rem .28rem}}
.r{white-space:normal}.i{white-space:nowrap}
tbody th{font-weight:500}
.t{text-align:left}
tbody .p{white-space:normal;min-width:14rem;max-width:26rem;overflow-wrap:anywhere}
tbody tr:hover>*{background:var(--hover)}
sup{line-height:0}
sup a{text-decoration:none;padding:0 .15em}
.notes{font-size:.85rem;color:var(--muted);margin:.5rem 0;padding-left:1.5rem;max-width:46rem;overflow-wrap:anywhere}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--link);font-size:.9rem;padding:.2rem 0}
details .scroll{max-height:26rem;overflow:auto}
details thead th{position:sticky;top:0;background:var(--raised)}
.note,.warning{border-left:4px solid var(--note);background:var(--raised);padding:.55rem .9rem;border-radius:0 6px 6px 0}
.warning{border-color:var(--warning)}
ul.note{padding-left:2rem}
.note b,.warning b{margin-right:.35em}
pre{background:var(--raised);border:1px solid var(--grid);border-radius:6px;padding:.7rem .9rem;overflow-x:auto;font:.82rem/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;max-width:100%}
button{font:inherit;font-size:.82rem;line-height:1.3;color:var(--ink);background:var(--paper);border:1px solid var(--axis);border-radius:5px;padding:.22rem .6rem;cursor:pointer}
button:hover{background:var(--raised)}
button[aria-pressed=false]{color:var(--muted);text-decoration:line-through}
.tools{display:flex;flex-wrap:wrap;gap:.35rem;margin:.4rem 0}
#tip{position:fixed;z-index:8;max-width:20rem;padding:.35rem .6rem;font-size:.82rem;line-height:1.35;background:var(--ink);color:var(--paper);border-radius:5px;pointer-events:none;overflow-wrap:anywhere}
footer{border-top:1px solid var(--grid);color:var(--muted);font-size:.85rem;padding:1rem 0 2rem}
@media screen and (min-width:72rem){
.frame{padding:0 1.25rem}
.columns{display:grid;grid-template-columns:12rem minmax(0,1fr);gap:2rem}
nav{position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto;padding:2.6rem 0 2rem}
}
@media screen and (min-width:43rem) and (max-width:71.99rem){
nav>ul{columns:2;column-gap:2.5rem}
nav>ul>li{break-inside:avoid}
}
@media screen and (max-width:48rem){
.wide{display:none}.narrow{display:block}
}
@media screen and (max-width:43rem){
h1{font-size:1.5rem}
th,td{padding:.35rem .5rem}
}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@page{size:A4;margin:16mm}
@media print{
body{font-size:10pt}
nav,.skip,.tools,button,details,#tip{display:none}
.frame{max-width:none;padding:0}
header{padding-top:0}
figure,.table,.note,.warning,pre{break-inside:avoid}
h2,h3{break-after:avoid}
.scroll{overflow:visible;border-radius:0}
table{font-size:7.5pt}.fine{font-size:6.6pt}.finer{font-size:5.8pt}.finest{font-size:5.4pt}
th,td,thead th{padding:.15rem .25rem;min-width:0}
:is(.fine,.finer,.finest) :is(th,td){padding:.12rem .15rem}
tbody .p{min-width:11em;max-width:none}
.split .i{white-space:normal}
.tight th,.tight td,.tight .p{white-space:normal;min-width:0;overflow-wrap:anywhere}
a{color:inherit;text-decoration:none}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
}
)css";

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
  style += kRules;
  return style;
}

}  // namespace lockstep::report
