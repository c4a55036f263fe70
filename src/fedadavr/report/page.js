"use strict";
(() => {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const data = document.getElementById("figures");
  const figures = data ? JSON.parse(data.textContent) : { labels: [], curves: [] };
  const hidden = new Set();

  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const plain = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const decades = [-4, -3, -2, -1, 0, 1, 2, 3, 4].flatMap((power) =>
    [1, 2, 5].map((first) => Number(`${first}e${power}`)));
  const faded = (hex, opacity) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${opacity})`;
  };

  // Every panel: where it is drawn, what it shows, and whether that is up to date.
  const panels = [];
  document.querySelectorAll("section.curves").forEach((section, i) => {
    section.dataset.metric = "accuracy";
    section.querySelectorAll(".plot").forEach((place, j) => {
      panels.push({ place, section, series: figures.curves[i][j], fresh: false, near: false });
    });
  });

  const traces = (panel) => {
    const metric = panel.section.dataset.metric;
    const shown = panel.series.filter((one) => !hidden.has(one.label));
    const opacity = shown.length > 8 ? 0.07 : 0.14; // many bands on top of each other
    const bands = [];
    const lines = [];
    for (const one of shown) {
      const look = figures.labels[one.label];
      const { x, mean, sd, low, high, seeds } = one[metric];
      const hue = dark() ? look.dark : look.light;
      if (seeds > 1) {
        bands.push({
          x: [...x, ...[...x].reverse()], y: [...high, ...[...low].reverse()], mode: "lines",
          fill: "toself", fillcolor: faded(hue, opacity), line: { width: 0 }, hoverinfo: "skip",
        });
      }
      const digits = metric === "accuracy" ? 1 : 3;
      lines.push({
        x, y: mean, mode: x.length > 1 ? "lines" : "markers", name: plain(look.name),
        line: { color: hue, dash: look.dash, width: 1.8 }, marker: { color: hue },
        customdata: mean.map((value, k) => value === null ? "" : value.toFixed(digits) + (
          seeds > 1 ? ` ± ${(sd[k] ?? NaN).toFixed(digits)} (${seeds} seeds)` : " (1 seed)")),
        hovertemplate: `<b>${plain(look.name)}</b><br>round %{x}: %{customdata}<extra></extra>`,
      });
    }
    return [...bands, ...lines];
  };

  const layout = (panel) => {
    const metric = panel.section.dataset.metric;
    const axis = {
      gridcolor: color("--rule"), zeroline: false, automargin: true, fixedrange: touch,
      linecolor: color("--rule"), ticks: "", tickfont: { size: 11 },
    };
    const title = (text) => ({ text, font: { size: 12 }, standoff: 6 });
    const loss = metric === "loss";
    return {
      showlegend: false, hovermode: "closest", dragmode: touch ? false : "zoom",
      margin: { l: 46, r: 14, t: 6, b: 38 }, paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)", font: { color: color("--ink"), family: "system-ui, sans-serif" },
      hoverlabel: { bgcolor: color("--ground"), font: { color: color("--ink") }, align: "left", namelength: -1 },
      xaxis: { ...axis, title: title("round"), rangemode: "tozero" },
      yaxis: {
        ...axis, title: title(loss ? "loss (log scale)" : "accuracy, %"),
        type: loss ? "log" : "linear", ...(loss ? { tickvals: decades, ticktext: decades } : {}),
      },
      width: panel.place.clientWidth, height: panel.place.clientHeight,
    };
  };

  const draw = (panel) => {
    panel.fresh = true;
    return Plotly.react(panel.place, traces(panel), layout(panel), {
      displayModeBar: false, responsive: false,
    });
  };
  // Only what is near the window is drawn at once, the rest when it comes there.
  const drawNear = () => panels.forEach((panel) => panel.near && !panel.fresh && draw(panel));
  const stale = (which = () => true) => {
    panels.forEach((panel) => { if (which(panel)) panel.fresh = false; });
    drawNear();
  };
  const watcher = new IntersectionObserver((seen) => {
    seen.forEach((entry) => {
      panels.find((panel) => panel.place === entry.target).near = entry.isIntersecting;
    });
    drawNear();
  }, { rootMargin: "600px" });
  panels.forEach((panel) => watcher.observe(panel.place));

  // Hide and show a label, everywhere.
  const show = (labels, shown) => {
    labels.forEach((label) => (shown ? hidden.delete(label) : hidden.add(label)));
    document.querySelectorAll(".key").forEach((key) => {
      key.setAttribute("aria-pressed", String(!hidden.has(Number(key.dataset.label))));
    });
    stale((panel) => panel.series.some((one) => labels.includes(one.label)));
  };
  document.querySelectorAll(".legend").forEach((legend) => {
    const own = [...legend.querySelectorAll(".key")].map((key) => Number(key.dataset.label));
    legend.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.all) show(own, button.dataset.all === "true");
      else show([Number(button.dataset.label)], hidden.has(Number(button.dataset.label)));
    });
  });

  // Accuracy or loss, for one grid.
  document.querySelectorAll(".choice .button").forEach((button) => {
    button.addEventListener("click", () => {
      const section = button.closest("section");
      section.dataset.metric = button.dataset.metric;
      section.querySelectorAll(".choice .button").forEach((other) => {
        other.setAttribute("aria-pressed", String(other === button));
      });
      stale((panel) => panel.section === section);
    });
  });

  // Light and dark.
  const theme = document.getElementById("theme");
  const tell = () => {
    theme.setAttribute("aria-pressed", String(dark()));
    stale();
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  prefersDark.addEventListener("change", tell);
  tell();

  // Columns of labels stay in sight while a table is scrolled, as long as they leave it room.
  const stick = () => {
    document.querySelectorAll(".scroll").forEach((box) => {
      const heads = [...box.querySelectorAll("thead .label")];
      let left = 0;
      heads.forEach((head, column) => {
        if (!head.offsetWidth) return; // on a phone the last has them all
        const fits = left === 0 || left + head.offsetWidth < box.clientWidth * 0.55;
        [head, ...box.querySelectorAll(`tbody .label[data-column="${column}"]`)].forEach((cell) => {
          cell.style.position = fits ? "sticky" : "static";
          cell.style.left = fits ? `${left}px` : "";
          cell.style.zIndex = fits ? "1" : "";
        });
        left += fits ? head.offsetWidth : Infinity;
      });
    });
  };
  stick();

  // On a phone the contents would fill the first screen.
  if (innerWidth < 640) document.querySelector("nav details").open = false;

  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    stick();
    stale();
  });
  // On paper: light, and two panels beside each other.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    panels.forEach((panel) => {
      panel.place.style.width = "330px";
      panel.place.style.height = "230px";
      draw(panel);
    });
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    panels.forEach((panel) => {
      panel.place.style.width = panel.place.style.height = "";
    });
    stale();
  });
})();
