// Pages whose tables have many rows get a field that shows only the rows with all words that are typed into it: on top
// where the page is mostly tables, else above the first long one.
document.addEventListener("DOMContentLoaded", () => {
  const rows = [...document.querySelectorAll(".md-content table tbody tr")];
  if (rows.length < 40) return;
  const box = document.createElement("div");
  box.className = "table-search";
  box.innerHTML = '<input type="search" placeholder="Find rows on this page" aria-label="Find rows on this page"><span></span>';
  const long = [...document.querySelectorAll(".md-content table")].find((table) => table.rows.length > 20);
  if (rows.length < 300 && long) (long.closest(".md-typeset__scrollwrap") ?? long).before(box); // not in what scrolls sideways
  else document.querySelector(".md-content h1").after(box);
  const [field, count] = box.children;
  const texts = rows.map((row) => row.textContent.toLowerCase());
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every((word) => texts[at].includes(word));
      shown += !row.hidden;
    });
    count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    // While something is looked for, only tables with rows that fit are shown, each below its heading.
    let heading = null;
    for (const part of document.querySelector(".md-content__inner").children) {
      const fits = [...part.querySelectorAll("tbody tr")].some((row) => !row.hidden);
      if (/^H[2-6]$/.test(part.tagName)) heading = part;
      if (fits && heading) heading.hidden = false;
      part.hidden = words.length > 0 && !fits && part !== box && part.tagName !== "H1";
    }
  });
});
