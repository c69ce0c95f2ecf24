// The look of what is not canvas. Every rule is below .pm, so the notebook around it does not change.
import { Palette, type Theme, TONES } from "../paint/theme.ts";

export const STYLE = `
.pm{position:relative;box-sizing:border-box;width:100%;min-width:240px;color:var(--pm-ink);background:transparent;font-family:var(--jp-ui-font-family,"Helvetica Neue",Arial,"Liberation Sans",Helvetica,sans-serif);font-size:12px;line-height:16px;font-variant-numeric:tabular-nums;text-align:left;direction:ltr;unicode-bidi:isolate;--pm-code:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace)}
.pm *,.pm *::before{box-sizing:border-box}
.pm button{font:inherit;color:inherit;background:none;border:0;border-radius:0;padding:0;margin:0;cursor:pointer;text-align:left}
.pm button:focus-visible,.pm input:focus-visible{outline:2px solid var(--pm-accent);outline-offset:2px}
.pm-top{display:flex;align-items:baseline;height:24px;white-space:nowrap;overflow:hidden}
.pm-top>span,.pm-about{overflow:hidden;text-overflow:ellipsis}
.pm-top b,.pm-about b{font-weight:600}
.pm-top>b,.pm-seen{font-size:15px;margin-right:14px;flex:none}
.pm-top>b+span{font-size:14px}
.pm-about{color:var(--pm-ink2);white-space:nowrap}
.pm-about b,.pm-figures b{color:var(--pm-ink)}
.pm-top+.pm-about .pm-seen{font-size:12px;margin-right:.4em}
.pm-space{flex:1}
.pm button.pm-button{color:var(--pm-ink2);padding:1px 7px;border-radius:4px;margin-left:2px}
.pm button.pm-button:hover{background:var(--pm-soft);color:var(--pm-ink)}
.pm-failure{font-weight:600;color:var(--pm-wait);margin:2px 0 4px}
.pm-shares{display:flex;height:7px;margin-top:5px;gap:1px}
.pm-shares i{display:block;height:7px;min-width:1px}
.pm-sharewords{display:flex;flex-wrap:wrap;column-gap:20px;min-height:17px;font-size:11px;color:var(--pm-ink2);margin-top:3px}
.pm-lights{cursor:default}
.pm-off{opacity:.3}
.pm-sharewords b{font-weight:600;color:var(--pm-ink)}
.pm-sharewords i{display:inline-block;width:10px;height:8px;margin-right:6px}
.pm-lost{border:1px solid var(--pm-wait);background:repeating-linear-gradient(45deg,transparent 0 3px,var(--pm-wait) 3px 4px)}
.pm-findings{margin:5px 0 8px;border-top:1px solid var(--pm-rule)}
.pm-finding{position:relative;display:grid;grid-template-columns:calc(92px*var(--pm-font,1)) minmax(0,1fr) auto;min-height:24px;align-items:center;border-bottom:1px solid var(--pm-rule);padding:3px 0}
.pm-findings .pm-on{background:color-mix(in srgb,var(--pm-accent) 7%,transparent)}
.pm-cost{text-align:right;padding-right:14px;font-weight:600;white-space:nowrap}
.pm-alarm{color:var(--pm-wait)}
.pm-cost.pm-none{font-weight:400;color:var(--pm-ink2)}
.pm-said{padding-left:calc(18px*var(--pm-depth,0))}
.pm-said b{font-weight:600}
.pm-answer{display:grid;grid-template-columns:22px minmax(0,1fr) auto;column-gap:4px;padding:4px 0;border-bottom:1px solid var(--pm-rule)}
.pm-answer b{font-weight:600}
.pm-answer>i{font-style:normal;font-weight:600;color:var(--pm-ink3);padding-left:4px}
.pm-action::before{content:"→ ";color:var(--pm-accent)}
.pm-why{color:var(--pm-ink2);border-left:2px solid var(--pm-rule);padding-left:8px;margin-top:3px}
.pm-why span{display:block;padding:0}
.pm-figures{text-align:right;white-space:nowrap;color:var(--pm-ink2);padding-left:8px}
.pm-all>div{display:flex;gap:0 14px;white-space:nowrap}
.pm-all .pm-figures{flex-direction:row-reverse}
.pm button.pm-rest{display:flex;gap:0 14px;min-width:0;color:var(--pm-ink2)}
.pm-rest span{overflow:hidden;text-overflow:ellipsis}.pm-rest span+span{white-space:normal}
.pm-all :is(b,span):empty{display:none}
.pm button.pm-rest[aria-expanded=true]{flex-wrap:wrap;white-space:normal}
.pm .pm-unfold{flex:none;white-space:pre;color:var(--pm-accent)}
.pm button.pm-line{border-bottom:1px solid var(--pm-ink3)}
.pm button.pm-line:hover,.pm button.pm-line.pm-on{border-color:var(--pm-accent);color:var(--pm-accent)}
.pm button.pm-show{color:var(--pm-accent);white-space:nowrap}
.pm-finding .pm-show{margin-left:12px}
.pm-body{position:relative;outline:0;border-radius:2px}
.pm-body:focus-visible{outline:2px solid var(--pm-accent);outline-offset:-1px}
.pm-body canvas{display:block;touch-action:pan-y}
.pm-find{position:absolute;right:0;top:2px;display:flex;gap:8px;align-items:center;background:var(--pm-raise);border:1px solid var(--pm-rule);border-radius:5px;padding:3px 8px;box-shadow:0 4px 16px rgba(0,0,0,.16);z-index:3}
.pm-find input{font:inherit;color:var(--pm-ink);background:var(--pm-ground);border:1px solid var(--pm-rule);border-radius:3px;padding:1px 5px;width:180px}
.pm-find span{color:var(--pm-accent);font-weight:600;white-space:nowrap}
.pm-card{position:absolute;width:max-content;min-width:240px;pointer-events:none;background:var(--pm-raise);border-radius:6px;padding:9px 12px 10px;font-size:11px;line-height:15px;color:var(--pm-ink2);box-shadow:0 1px 2px rgba(20,25,35,.12),0 6px 20px rgba(20,25,35,.18);outline:1px solid var(--pm-rule);z-index:2}
.pm-card h3{margin:0;font-size:12px;font-weight:600;color:var(--pm-ink);line-height:15px;overflow-wrap:anywhere}
.pm-card h3 i{display:inline-block;width:9px;height:9px;margin-right:6px}
.pm-card .pm-full{margin:1px 0 6px;overflow-wrap:anywhere}
.pm-life{display:flex;height:8px;margin:6px 0 5px;gap:0}
.pm-life i{display:block;height:8px;min-width:1px}
.pm-card dl{display:grid;grid-template-columns:auto auto minmax(0,1fr);column-gap:10px;margin:0}
.pm-card dt,.pm-card dd{float:none;width:auto;padding:0;font-weight:400;margin:0;white-space:nowrap}
.pm-card dd:nth-child(3n){white-space:normal;overflow-wrap:anywhere}
.pm-card dd:nth-child(3n+2){text-align:right;color:var(--pm-ink);min-width:58px}
.pm-foot{margin-top:5px}
.pm-help{position:absolute;right:0;top:0;background:var(--pm-raise);border-radius:6px;padding:10px 14px;outline:1px solid var(--pm-rule);box-shadow:0 6px 20px rgba(20,25,35,.18);z-index:4;display:grid;grid-template-columns:auto auto;gap:4px 14px;font-size:11px;color:var(--pm-ink2)}
.pm.pm kbd{font-family:inherit;font-size:10px;line-height:13px;box-shadow:none;border:1px solid var(--pm-rule);border-radius:3px;padding:0 3.5px;color:var(--pm-ink);margin-right:3px;background:var(--pm-soft)}
.pm-panel{display:grid;grid:none/minmax(136px,max-content);grid-auto-flow:column;grid-auto-columns:minmax(0,1fr);column-gap:22px;border-top:1px solid var(--pm-rule);margin-top:8px;padding-top:8px;font-size:11px;line-height:15px;color:var(--pm-ink2)}
.pm-narrow .pm-panel{grid:auto-flow/1fr 1fr;row-gap:8px}
.pm-panel h2{margin:0 0 2px;font-size:11px;font-weight:400;color:var(--pm-ink2)}
.pm-big{font-size:15px;font-weight:600;color:var(--pm-ink);line-height:19px}
.pm-rows{display:grid;grid-template-columns:minmax(0,max-content) 32px max-content max-content;grid-auto-rows:minmax(16px,auto);column-gap:8px;align-items:center;align-content:start;color:var(--pm-ink)}
.pm-rows h2{grid-column:1/-1}
.pm-rows span{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.pm-rows .pm-value{text-align:right}
.pm-rows .pm-more{color:var(--pm-ink2)}
.pm-bar{height:7px;display:block;min-width:1px}
.pm-flame{margin-top:8px;font-size:11px}
.pm-crumbs{color:var(--pm-ink2);white-space:nowrap;overflow:hidden;margin:4px 0 3px}
.pm-crumbs button{max-width:30%;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
.pm-tree{position:relative;overflow:auto;max-height:336px}
.pm-tree>*{position:absolute;height:15px;line-height:15px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.pm .pm-tree>*{color:var(--pm-hostink);text-indent:3px;box-shadow:inset -1px 0 var(--pm-ground)}
.pm-tree>i{background:var(--pm-launch);font-style:normal}
.pm .pm-tree>button:hover{box-shadow:inset 0 0 0 1px var(--pm-accent)}
.pm .pm-tree>button:focus-visible{outline-offset:-2px}
.pm-key,.pm-linekey{display:flex;flex-wrap:wrap;gap:4px 14px;font-size:11px;color:var(--pm-ink2);margin-top:6px;align-items:center}
.pm-hints{margin-left:auto;display:flex;flex-wrap:wrap;gap:2px 12px}.pm-hints span{white-space:nowrap}
.pm-key button{display:inline-flex;align-items:center}
.pm-key button.pm-off{opacity:.45;text-decoration:line-through}
.pm-swatch{display:inline-block;width:12px;height:9px;margin-right:5px;flex:none}
.pm-grey{--pm-wait:var(--pm-ink3)}
.pm-held{background:repeating-linear-gradient(135deg,var(--pm-matrix) 0 1px,transparent 1px 3.5px),color-mix(in srgb,var(--pm-comp) 22%,var(--pm-ground))}
.pm-blocked{background:color-mix(in srgb,var(--pm-wait) 28%,var(--pm-ground))}
.pm-beside{background:color-mix(in srgb,var(--pm-wait) 18%,var(--pm-ground))}
.pm-last{background:var(--pm-wait);border-radius:50%;width:8px;height:8px}
.pm-idle{background:color-mix(in srgb,var(--pm-wait) 45%,var(--pm-ground))}
.pm-queued{background:color-mix(in srgb,var(--pm-comp) 32%,var(--pm-ground))}
.pm-fine{font-size:11px;line-height:15px;color:var(--pm-ink2);margin-top:5px}
.pm-fine summary{display:flex;list-style:none;white-space:nowrap;cursor:pointer}
.pm-fine summary::-webkit-details-marker{display:none}
.pm-fine summary>span:first-child{overflow:hidden;text-overflow:ellipsis}
.pm-fine summary:focus-visible{outline:2px solid var(--pm-accent);outline-offset:2px}
.pm-fine[open] summary{white-space:normal}
.pm-fine[open] .pm-unfold{display:none}
.pm-open-rank{border-top:1px solid var(--pm-rule);margin-top:8px;padding-top:6px}
.pm-rank-head{display:flex;gap:10px;align-items:baseline}
.pm-rank-head span{color:var(--pm-ink2);flex:1;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.pm-open-rank :is(.pm-top:not(:has(.pm-tabs>*)),.pm-top>:not(.pm-tabs,.pm-space),.pm-top+.pm-about,.pm-key,.pm-fine){display:none}
.pm-tabs{display:flex;flex:none;margin-left:8px}
.pm button.pm-button[aria-selected=true]{background:var(--pm-soft);color:var(--pm-ink);box-shadow:inset 0 0 0 1px var(--pm-rule)}
.pm-lines{display:none}
.pm[data-tab=lines] .pm-lines:not(.pm-memory),.pm[data-tab=memory] .pm-memory{display:block}
.pm[data-tab=memory]>.pm-key,.pm[data-tab=memory]>.pm-body{display:none}
.pm-memory>div:first-child{display:flex;justify-content:space-between}
.pm.pm .pm-memory table{width:100%;margin-top:8px}.pm.pm .pm-memory td:nth-child(n+3),.pm.pm .pm-memory th:nth-child(n+3){text-align:left;padding-left:8px;text-overflow:ellipsis}
.pm.pm .pm-memory th:nth-child(1){width:130px}.pm.pm .pm-memory th:nth-child(2){width:70px}
.pm[data-tab=lines]>.pm-key{display:none}
.pm[data-tab=lines]>.pm-body{position:sticky;top:0;z-index:2;background:var(--pm-ground)}
.pm-narrow[data-tab=lines]{overflow-x:auto}
.pm-say{min-height:18px;line-height:18px;color:var(--pm-ink2);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.pm-linebox{position:relative}
.pm-linebox canvas{position:absolute;top:0;pointer-events:none}
.pm.pm table{table-layout:fixed;border-collapse:collapse;border:0;margin:0;font-size:11px;color:var(--pm-ink);background:none}
.pm.pm tr{background:none;scroll-margin:var(--pm-strip,90px) 0 8px}
.pm.pm th,.pm.pm td{position:relative;height:18px;line-height:17px;padding:0 6px 0 0;border:0;border-bottom:1px solid var(--pm-rule);font-weight:400;text-align:right;vertical-align:middle;white-space:nowrap;max-width:none;overflow:hidden}
.pm.pm thead th,.pm.pm thead td{color:var(--pm-ink2);border-color:transparent}
.pm.pm thead th:nth-child(2),.pm.pm thead th:nth-child(3),.pm.pm tr>td:nth-child(2):not(:only-child),.pm.pm .pm-function>*{text-align:left}
.pm.pm thead tr:first-child th{text-align:right}
.pm.pm tbody tr:not(.pm-function) th{color:var(--pm-ink3);font-family:var(--pm-code)}
.pm.pm .pm-function>*{height:30px;vertical-align:bottom;padding:0 0 3px;color:var(--pm-ink2);overflow:visible}
.pm-function b{font-family:var(--pm-code);font-weight:600;font-size:12px;color:var(--pm-ink);margin-right:12px}
.pm.pm .pm-total td{border:0;font-weight:600}.pm.pm .pm-total td:nth-child(2){padding-left:6px;font-weight:400;color:var(--pm-ink2)}
.pm-code{font-family:var(--pm-code);font-size:11px;white-space:pre;overflow-x:auto;scrollbar-width:none;padding-left:6px;color:var(--pm-ink3);text-align:left}
.pm-ran .pm-code{color:var(--pm-ink)}.pm-ran{cursor:default}
.pm td>i{position:absolute;left:4px;top:3px;bottom:3px;min-width:1px}
.pm td>span{position:relative}
.pm-pythonbar{background:var(--pm-host1)}.pm-devicebar{background:color-mix(in srgb,var(--pm-comp) 50%,var(--pm-ground))}
.pm-blockedbar{border:1px solid var(--pm-wait);background:repeating-linear-gradient(45deg,transparent 0 3px,color-mix(in srgb,var(--pm-wait) 50%,transparent) 3px 4px)}
.pm-peakbar{background:color-mix(in srgb,var(--pm-memory) 50%,var(--pm-ground))}
.pm-backwardbar,.pm-outline{border:1px solid var(--pm-comp)}
.pm.pm tr.pm-waits{background:color-mix(in srgb,var(--pm-wait) 6%,transparent)}
.pm.pm tr.pm-caller{background:color-mix(in srgb,var(--pm-accent) 7%,transparent)}
.pm.pm tr.pm-told{background:color-mix(in srgb,var(--pm-accent) 18%,transparent)}
.pm.pm tr.pm-forward{outline:1.5px dashed var(--pm-comp);outline-offset:-1px}
.pm.pm tr.pm-pinned th:first-child{color:var(--pm-accent);font-weight:600;box-shadow:inset 3px 0 var(--pm-accent)}
.pm.pm tr:focus-visible{outline:2px solid var(--pm-accent);outline-offset:-2px}
.pm-note{font-size:11px;line-height:15px;color:var(--pm-ink2);margin-top:3px}
.pm-error{padding:8px 0;color:var(--pm-wait)}
.pm-narrow .pm-finding{grid-template-columns:82px minmax(0,1fr) auto}
.pm-narrow .pm-top{flex-wrap:wrap;height:auto}
.pm-narrow .pm-top>b+span{flex:1 0 100%;order:1}
.pm-narrow :is(.pm-top>span,.pm-about){white-space:normal}
.pm-slim .pm-rest{flex-wrap:wrap}
.pm-slim .pm-figures{grid-column:2;display:flex;flex-direction:row;gap:0 10px;padding:0}
.pm-spoken{position:absolute;width:1px;height:1px;overflow:hidden}
@media(forced-colors:active){.pm :is(i,[role=treeitem]){forced-color-adjust:none}
.pm button.pm-button[aria-selected=true],.pm-findings .pm-on,.pm.pm tr.pm-told,.pm.pm tr.pm-caller{outline:1px solid Highlight;outline-offset:-1px}}
`;

/** Sets the palette's colours as variables of an element. */
export function dress(root: HTMLElement, theme: Theme): void {
  const palette = new Palette(theme);
  for (const token of Object.keys(TONES)) root.style.setProperty(`--pm-${token}`, palette.css(token));
  root.style.colorScheme = theme;
}
