"use strict";
// The charts of one deployment's last hour, drawn by bokeh. Both scripts are loaded only once the charts come into sight.
(() => {
  const place = document.getElementById("charts");
  if (!place) return;
  const body = document.body;
  // bokeh writes its styles into style elements; the page's policy takes those that carry this page's nonce and no other.
  const { nonce } = document.currentScript;
  const make = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const made = make(name, options);
    if (name === "style") made.nonce = nonce;
    return made;
  };
  const DRAWN = [
    ["Replicas", "", [["ready", "ready"], ["eligible", "eligible"], ["serving", "serving"]]],
    ["Requests in hand", "", [["running", "running"], ["waiting", "waiting"]]],
    ["Tokens a second", "", [["generated", "tokensPerSecond"]]],
    ["Requests a second", "", [["requests", "requestsPerSecond"]]],
    ["Latency, mean", "seconds", [["first token", "ttft"], ["between tokens", "itl"]]],
    ["KV cache in use", "fraction", [["largest role", "kvUsage"]]],
    ["Failed requests", "fraction", [["error ratio", "errorRatio"]]],
    ["Age of the oldest value", "seconds", [["age", "age"]]],
  ];
  const COLOURS = ["#3b82c4", "#d9822b", "#4c9a52"];
  const DASHES = [[], [6, 3], [2, 2]];
  const charts = [];
  const empty = [];
  let shape;

  const load = (url) => new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = done;
    script.onerror = () => failed(new Error(`${url} was not loaded`));
    document.head.append(script);
  });

  const numbers = (found) => (found || []).map((value) => (value === null ? NaN : value));

  function words(past, lines) {
    return lines.map(([label, name]) => {
      const known = (past.series[name] || []).filter((value) => value !== null);
      if (!known.length) return `${label}: not known in the last hour`;
      const short = (value) => Number(value.toPrecision(3));
      const last = past.series[name][past.series[name].length - 1];
      return `${label}: last ${last === null ? "unknown" : short(last)}, lowest ${short(Math.min(...known))}, highest ${short(Math.max(...known))}`;
    }).join("; ");
  }

  const known = (past, lines) => lines.some(([, name]) => (past.series[name] || []).some((value) => value !== null));

  function data(past, lines) {
    const made = { time: past.times.map((wall) => wall * 1000) };
    for (const [, name] of lines) made[name] = numbers(past.series[name]);
    return made;
  }

  function draw(past, title, unit, lines, signed) {
    const Bokeh = window.Bokeh;
    const M = (name) => Bokeh.Models.get(name);
    const style = getComputedStyle(body);
    const ink = style.getPropertyValue("--soft").trim();
    const rule = style.getPropertyValue("--line").trim();
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    if (!known(past, lines)) {
      empty.push(lines);
      caption.textContent = `${title}: ${words(past, lines)}`;
      figure.append(caption);
      place.append(figure);
      return null;
    }
    const plotAt = document.createElement("div");
    plotAt.className = "plot";
    // The words under a plot say what it shows; nothing in it can be operated.
    plotAt.inert = true;
    figure.append(plotAt, caption);
    place.append(figure);
    const source = new (M("ColumnDataSource"))({ data: data(past, lines) });
    const plot = new (M("Plot"))({
      title: new (M("Title"))({ text: unit ? `${title} (${unit})` : title, text_color: ink, text_font_size: "12px" }),
      x_range: new (M("DataRange1d"))({ min_interval: 60000 }), y_range: new (M("DataRange1d"))(signed ? {} : { start: 0 }), sizing_mode: "stretch_both",
      background_fill_color: null, border_fill_color: null, outline_line_color: rule, toolbar_location: null,
    });
    const text = { axis_line_color: rule, major_label_text_color: ink, major_tick_line_color: rule, minor_tick_line_color: null };
    const below = new (M("DatetimeAxis"))(text);
    const left = new (M("LinearAxis"))(text);
    plot.add_layout(below, "below");
    plot.add_layout(left, "left");
    plot.add_layout(new (M("Grid"))({ dimension: 1, ticker: left.ticker, grid_line_color: rule, grid_line_alpha: 0.5 }));
    const items = lines.map(([label, name], at) => {
      const glyph = new (M("Line"))({ x: { field: "time" }, y: { field: name }, line_width: 2, line_color: COLOURS[at], line_dash: DASHES[at] });
      const renderer = new (M("GlyphRenderer"))({ data_source: source, glyph });
      plot.add_renderers(renderer);
      // A single sample between two gaps has no line: it is a dot.
      const dot = new (M("Scatter"))({ x: { field: "time" }, y: { field: name }, size: 4, fill_color: COLOURS[at], line_color: null });
      plot.add_renderers(new (M("GlyphRenderer"))({ data_source: source, glyph: dot }));
      return new (M("LegendItem"))({ label: { value: label }, renderers: [renderer] });
    });
    if (items.length > 1) {
      plot.add_layout(new (M("Legend"))({
        items, location: "bottom_left", orientation: "horizontal", background_fill_alpha: 0, border_line_alpha: 0, padding: 2,
        label_text_color: ink, label_text_font_size: "11px", glyph_height: 10, glyph_width: 16, label_height: 10,
      }), "below");
    }
    caption.textContent = words(past, lines);
    charts.push({ source, lines, caption });
    const { Document } = Bokeh.require("document");
    const doc = new Document();
    doc.add_root(plot);
    return Bokeh.embed.add_document_standalone(doc, plotAt);
  }

  async function past() {
    const answer = await fetch(place.dataset.history, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`history answered ${answer.status}`);
    return answer.json();
  }

  async function begin() {
    place.textContent = "";
    if (!body.dataset.bokeh) {
      place.textContent = "The bokeh package is not installed, so there are no charts; the numbers are in the history's JSON.";
      return;
    }
    try {
      const [found] = await Promise.all([past(), load(body.dataset.bokeh)]);
      window.Bokeh.set_log_level("error");
      await drawAll(found);
      setInterval(renew, 10000);
    } catch (error) {
      place.append(`No charts: ${error.message}`);
    }
  }

  async function drawAll(found) {
    charts.length = empty.length = 0;
    place.textContent = "";
    shape = JSON.stringify(found.charts);
    for (const [title, unit, lines, signed] of found.charts || DRAWN) await draw(found, title, unit, lines, signed);
    if (!place.childElementCount) place.textContent = "Nothing was sampled in the last hour since this observer started.";
    place.dataset.drawn = String(found.times.length);
  }

  async function renew() {
    if (document.hidden) return;
    try {
      const found = await past();
      if (JSON.stringify(found.charts) !== shape || empty.some((lines) => known(found, lines))) {
        await drawAll(found);
        return;
      }
      for (const { source, lines, caption } of charts) {
        source.data = data(found, lines);
        caption.textContent = words(found, lines);
      }
      place.dataset.drawn = String(found.times.length);
    } catch {
      // The page's own line says that the observer is not reachable; the charts keep what they had.
    }
  }

  const sight = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      sight.disconnect();
      begin();
    }
  }, { rootMargin: "200px" });
  sight.observe(place);
})();
