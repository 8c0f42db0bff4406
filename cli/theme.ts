/** The colors of the pages, in light and dark color schemes. */
export const THEME = `  color-scheme: light dark;
  --ground: light-dark(#f3f4f7, #0d1015);
  --card: light-dark(#ffffff, #151920);
  --line: light-dark(#dfe2e8, #2a303b);
  --text: light-dark(#171b23, #e6e9ef);
  --dim: light-dark(#596172, #98a2b3);
  --good: light-dark(#14713d, #56d08b);
  --bad: light-dark(#b3202c, #ff8c8c);
  --warn: light-dark(#8a5200, #f0b45a);`
