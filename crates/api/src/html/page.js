"use strict";
const box = document.getElementById("search");
const entries = [...document.querySelectorAll("nav li")].map((item) => {
  const article = document.getElementById(item.dataset.to);
  return { item, article, text: article.textContent.toLowerCase() };
});
const groups = [...document.querySelectorAll("nav .group, main .group")];
const none = document.getElementById("none");
function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const { item, article, text } of entries) {
    const isFound = words.every((word) => text.includes(word));
    item.hidden = !isFound;
    article.hidden = !isFound;
    found += isFound ? 1 : 0;
  }
  for (const group of groups) {
    group.hidden = !group.querySelector("li:not([hidden]), article:not([hidden])");
  }
  none.hidden = found > 0;
}
box.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  } else if (event.key === "Escape" && document.activeElement === box) {
    box.value = "";
    search();
  }
});
window.addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.hidden) {
    box.value = "";
    search();
    target.scrollIntoView();
  }
});
search();
