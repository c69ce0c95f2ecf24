// What every bundle is built with.
export const OPTIONS = {
  bundle: true,
  target: "es2022",
  charset: "utf8",
  minify: true,
  legalComments: "none",
  write: false,
};
