// The colour theme. A classic script in the head, so that the page never flashes in the wrong colours.
(() => {
  const key = "duet-rpc-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Storage can be disabled; the theme then lasts until the page is closed.
  const read = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const write = (value) => { try { localStorage.setItem(key, value); } catch { /* see above */ } };
  const apply = () => {
    document.documentElement.dataset.theme = read() ?? (dark.matches ? "dark" : "light");
    document.dispatchEvent(new Event("themechange"));
  };
  dark.addEventListener("change", apply);
  window.toggleTheme = () => {
    write(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  };
  apply();
})();
