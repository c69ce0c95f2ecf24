// The torn edge of a pile that is cropped.
import type { Row } from "../model/layout.ts";
import type { Frame } from "./draw.ts";

/** The upper edge of a pile of which only the next ops are drawn. */
export function tornEdge(f: Frame, row: Row, token: string): void {
  const { g } = f.text;
  const zigzag = (): void => {
    g.beginPath();
    for (let x = 0, i = 0; x <= f.scale.width; x += 5, i++) {
      if (i) g.lineTo(x, row.y + (i & 1 ? 3.5 : 0));
      else g.moveTo(x, row.y);
    }
  };
  g.fillStyle = f.palette.css("ground");
  zigzag();
  g.lineTo(f.scale.width, row.y - 3);
  g.lineTo(0, row.y - 3);
  g.fill();
  g.strokeStyle = f.palette.css(token);
  g.lineWidth = 0.75;
  zigzag();
  g.stroke();
}
