// The plot of time series. Its values are in the table beneath.
import { plotAll } from "./plot.mjs";

const box = document.getElementById("plot");
const data = /** @type {import("./plot.mjs").Lines | null} */ (JSON.parse(document.getElementById("data")?.textContent || "null"));
if (box && data) plotAll(box, data);
