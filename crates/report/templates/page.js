// The page's chart: rows that can be opened, walked through and zoomed. Only the rows in sight are in the document.
// What the arrays of the data mean is said in src/page/data.rs.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  if (!data.writes.length) return;
  document.documentElement.classList.add("js");
  byId("live").hidden = false;

  const ROW = 30;
  const RIGHT = 26;
  const duration = Math.max(data.duration, 1);
  const isMany = data.writes.length > 1;
  const rowsBox = byId("rows");
  const windowBox = byId("window");
  const mostOfOne = data.writes.reduce((most, write) => Math.max(most, write[4]), 1);

  // What is shown: a span of time, the open writes, the chosen row.
  const view = { from: 0, to: duration };
  const open = new Set();
  let order = [...data.writes.keys()];
  let places = new Map();
  let rows = [];
  let active = -1;

  const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  const escape = (text) => String(text).replace(/[&<>"']/g, (character) => escapes[character]);
  const text = (number) => (number < 0 ? "" : data.texts[number]);
  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const many = (number, one) =>
    `${grouped(number)} ${number === 1 ? one : one.endsWith("y") ? one.slice(0, -1) + "ies" : one + "s"}`;
  const moment = (ms) => `${(ms / 1000).toFixed(3)} s`;
  // As text::span does.
  const span = (ms) => {
    ms = Math.round(ms);
    if (ms < 1000) return `${ms} ms`;
    if (ms < 120000) return `${Math.floor(ms / 1000)}.${Math.floor((ms % 1000) / 100)} s`;
    if (ms < 7200000) return `${Math.floor(ms / 60000)} min ${Math.floor((ms % 60000) / 1000)} s`;
    return `${grouped(Math.floor(ms / 3600000))} h ${Math.floor((ms % 3600000) / 60000)} min`;
  };

  // ---- from times to places

  let names = 214;
  let plot = 800;
  const measure = () => {
    const style = getComputedStyle(rowsBox);
    names = window.matchMedia("(max-width: 720px)").matches ? 130 : 214;
    // The scroll bar takes its width from the rows; the charts above them leave the same free.
    plot = Math.max(rowsBox.clientWidth - parseFloat(style.borderLeftWidth || 0) - names - RIGHT, 120);
  };
  const x = (ms) => ((ms - view.from) / (view.to - view.from)) * plot;
  const place = (value) => (Math.round(value * 10) / 10).toString();
  // Places far out of sight are as good as the edge, and do not overflow what a browser can draw.
  const near = (ms) => Math.min(Math.max(x(ms), -40), plot + 40);

  const inSight = (from, to) => to >= view.from && from <= view.to;

  const STEPS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 108e5, 432e5, 864e5,
  ];
  const step = () => {
    const wanted = (view.to - view.from) / Math.max(plot / 110, 2);
    return STEPS.find((one) => one >= wanted) || Math.ceil(wanted / 864e5) * 864e5;
  };
  const tickText = (ms, by) => {
    if (by < 1000) return `${(ms / 1000).toFixed(by < 10 ? 3 : by < 100 ? 2 : 1)} s`;
    if (by < 60000) return `${grouped(ms / 1000)} s`;
    if (by < 3600000) return `${grouped(ms / 60000)} min`;
    return `${grouped(Math.round(ms / 36000) / 100)} h`;
  };
  const ticks = () => {
    const by = step();
    const all = [];
    for (let ms = Math.ceil(view.from / by) * by; ms <= view.to; ms += by) all.push([ms, tickText(ms, by)]);
    return all;
  };
  const grid = (height) => `<path class="grid" d="${ticks().map(([ms]) => `M${place(x(ms))} 0v${height}`).join("")}"/>`;

  // ---- the numbers over time

  const level = () => {
    // The finest level that has no more than two points per pixel in sight.
    for (const one of data.levels) {
      const inSight = one[1].filter((point) => point[0] + one[0] >= view.from && point[0] <= view.to);
      if (inSight.length <= plot * 2) return one;
    }
    return data.levels[data.levels.length - 1];
  };

  const visible = (points, width) => {
    let first = 0;
    while (first + 1 < points.length && points[first + 1][0] + width < view.from) first += 1;
    const found = [];
    for (let at = first; at < points.length && points[at][0] <= view.to; at += 1) found.push(points[at]);
    return found;
  };

  // The path of one series as steps. A point is [at, most..., after...].
  const steps = (points, width, series, count, y, end) => {
    let path = "";
    points.forEach((point, at) => {
      const [most, after] = [point[1 + series], point[1 + count + series]];
      path += at === 0 ? `M${place(near(Math.max(point[0], view.from)))} ${place(y(0))}V${place(y(most))}` : `H${place(near(point[0]))}V${place(y(most))}`;
      if (after !== most) {
        const next = at + 1 < points.length ? points[at + 1][0] : end;
        path += `H${place(near(Math.min(point[0] + width, next)))}V${place(y(after))}`;
      }
    });
    return points.length ? `${path}H${place(near(Math.min(end, view.to)))}` : "";
  };

  const CHART = 112;
  const TOP = 12;
  const drawOverTime = () => {
    const [width, points] = level();
    const shown = visible(points, width);
    const most = (series) => shown.reduce((most, point) => Math.max(most, point[1 + series]), 0);
    const sends = most(1);
    const tickets = data.tickets !== null && data.tickets <= Math.max(sends, 4) * 3 && data.tickets * 12 >= sends ? data.tickets : 0;
    const top = Math.max(sends, tickets, 1);
    const base = TOP + CHART;
    const y = (number) => base - (CHART * number) / top;
    const path = (series) => steps(shown, width, series, 4, y, duration);
    const closed = (series) => {
      const one = path(series);
      return one && `${one}V${base}H0Z`;
    };
    const keys = [["running", "copies that run"], ["client", "sends at the server"]];
    if (data.levels[0][1].some((point) => point[3] > 0)) keys.push(["session", "waiting for a session"]);
    if (data.levels[0][1].some((point) => point[4] > 0)) keys.push(["ticket", "waiting for a ticket"]);
    if (data.losses.length) keys.push(["bad", "partitions lost"]);
    const lost = data.losses.filter((ms) => inSight(ms, ms)).map((ms) => `M${place(x(ms))} 10l-5 -8h10z`).join("");
    const key = ([colour, label], at) =>
      `<rect x="20" y="${TOP + 18 + at * 17}" width="10" height="10" rx="2" fill="var(--${colour})"/>` +
      `<text class="key" x="36" y="${TOP + 27 + at * 17}">${label}</text>`;
    byId("over-time").innerHTML =
      `<svg width="100%" height="${base + 10}" aria-hidden="true">` +
      `<text class="name" x="20" y="${TOP + 6}">over time</text>${names > 200 ? keys.map(key).join("") : ""}` +
      `<text class="tick" text-anchor="end" x="${names - 8}" y="${y(top) + 4}">${grouped(top)}</text>` +
      `<text class="tick" text-anchor="end" x="${names - 8}" y="${base + 3}">0</text>` +
      `<svg x="${names}" y="0" width="${plot}" height="${base + 10}">${grid(base)}` +
      `<path class="area-sends" d="${closed(1)}"/><path class="line-sends" d="${path(1)}"/>` +
      `<path class="area-copies" d="${closed(0)}"/><path class="line-copies" d="${path(0)}"/>` +
      `<path class="line-session" d="${most(2) ? path(2) : ""}"/><path class="line-ticket" d="${most(3) ? path(3) : ""}"/>` +
      (tickets
        ? `<path class="line-tickets" d="M0 ${place(y(tickets))}H${plot}"/><text class="tick beside" x="4" y="${place(y(tickets) - 4)}">${many(tickets, "ticket")}</text>`
        : "") +
      `<path class="lost" d="${lost}"/><path class="base" d="M0 ${base}H${plot}"/><rect id="brush" class="brush" y="0" height="${base}" width="0" visibility="hidden"/></svg></svg>`;
    byId("axis").innerHTML =
      `<svg width="100%" height="24"><svg x="${names - 30}" width="${plot + 60}" height="24">` +
      ticks().map(([ms, label]) => `<text class="tick" text-anchor="middle" x="${place(x(ms) + 30)}" y="16">${label}</text>`).join("") +
      `</svg></svg>`;
  };

  // ---- every write at a glance: one line of a canvas for each, or for several

  const glance = byId("glance");
  const still = document.createElement("canvas");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  // Draws it into a canvas that is not shown; scrolling only moves the frame that is drawn over it.
  const prepareGlance = () => {
    if (!glance) return;
    const ratio = window.devicePixelRatio || 1;
    const wide = glance.clientWidth;
    const high = glance.clientHeight;
    for (const canvas of [glance, still]) {
      canvas.width = wide * ratio;
      canvas.height = high * ratio;
    }
    const brush = still.getContext("2d");
    brush.scale(ratio, ratio);
    const columns = Math.ceil(plot);
    const lines = Math.min(high, order.length);
    // The most copies of one write per cell.
    const cells = new Uint16Array(columns * lines);
    order.forEach((number, at) => {
      const [, began, ended, , , , , , [width, points]] = data.writes[number];
      const row = Math.min(Math.floor((at / order.length) * lines), lines - 1) * columns;
      points.forEach((point, index) => {
        const next = index + 1 < points.length ? points[index + 1][0] : ended - began;
        const fill = (fromMs, toMs, copies) => {
          if (!copies) return;
          const from = Math.max(Math.floor(x(began + fromMs)), 0);
          const to = Math.min(Math.max(Math.ceil(x(began + toMs)), from + 1), columns);
          for (let column = from; column < to; column += 1) {
            if (cells[row + column] < copies) cells[row + column] = copies;
          }
        };
        fill(point[0], point[0] + width, point[1]);
        fill(point[0] + width, next, point[2]);
      });
    });
    brush.fillStyle = colour("running");
    const tall = high / lines;
    for (let row = 0; row < lines; row += 1) {
      for (let column = 0; column < columns; ) {
        const copies = cells[row * columns + column];
        let end = column + 1;
        while (end < columns && cells[row * columns + end] === copies) end += 1;
        if (copies) {
          brush.globalAlpha = 0.16 + (0.84 * copies) / mostOfOne;
          brush.fillRect(names + column, row * tall, end - column, Math.max(tall - (tall > 4 ? 1 : 0), 1));
        }
        column = end;
      }
    }
  };
  // The picture, and which part of it the rows below show.
  const drawGlance = () => {
    if (!glance || !glance.width) return;
    const brush = glance.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, glance.width, glance.height);
    brush.drawImage(still, 0, 0);
    brush.scale(ratio, ratio);
    const line = glance.clientHeight / Math.max(order.length, 1);
    const first = rows[Math.floor(rowsBox.scrollTop / ROW)];
    const last = rows[Math.min(Math.ceil((rowsBox.scrollTop + rowsBox.clientHeight) / ROW), rows.length) - 1];
    if (first && last) {
      const from = places.get(first.write) * line;
      const to = (places.get(last.write) + 1) * line;
      brush.strokeStyle = colour("ink");
      brush.strokeRect(names - 4, from + 0.5, Math.ceil(plot) + 8, Math.max(to - from - 1, 3));
    }
  };

  // ---- rows

  const listRows = () => {
    places = new Map(order.map((number, at) => [number, at]));
    rows = [];
    for (const number of order) {
      if (isMany) rows.push({ kind: "write", write: number, level: 1 });
      if (isMany && !open.has(number)) continue;
      const [, , , , , , executions, sends] = data.writes[number];
      const of = new Map();
      sends.forEach((send, at) => {
        if (!of.has(send[1])) of.set(send[1], []);
        of.get(send[1]).push(at);
      });
      const level = isMany ? 2 : 1;
      executions.forEach((_, at) => {
        rows.push({ kind: "execution", write: number, at, level });
        for (const send of of.get(at) || []) rows.push({ kind: "send", write: number, at: send, level: level + 1 });
      });
      for (const send of of.get(-1) || []) rows.push({ kind: "send", write: number, at: send, level });
    }
    rowsBox.setAttribute("aria-rowcount", rows.length);
    byId("space").style.height = `${rows.length * ROW}px`;
    rowsBox.style.height = `${rows.length * ROW}px`;
  };

  const sendName = (send) => {
    const [kind, , copy, isCopy, , command] = send;
    if (kind === 2) return text(command);
    if (!copy) return kind === 1 ? "resend, never arrived" : "send, never arrived";
    if (kind === 1) return `resend of copy ${copy}`;
    return isCopy ? `copy ${copy}` : `copy ${copy}, refused`;
  };

  const lastOfClient = (write) =>
    write[6].reduce((last, [, , , ended, , , , , hungUp]) => Math.max(last, ended, hungUp), -1);

  // What a row says, in words: for screen readers, and for the details.
  const describe = (row) => {
    const write = data.writes[row.write];
    const [label, began, ended, fate, most, [executions, sends, resends, copies]] = write;
    if (row.kind === "write") {
      return [
        label,
        `${many(executions, "execution")}, ${many(sends, "send")} (${many(resends, "resend")}), ${many(copies, "copy")}, at most ${grouped(most)} at the same time`,
        `${data.fates[fate]}; from ${moment(began)} to ${moment(ended)}`,
      ];
    }
    if (row.kind === "execution") {
      const [number, consumer, from, to, error, , wait, dead, hungUp] = write[6][row.at];
      const parts = [`began at ${moment(began + from)}`];
      if (to >= 0) parts.push(`${error >= 0 ? "failed" : "succeeded"} after ${span(to - from)}`);
      else parts.push(hungUp >= 0 ? `the client hung up after ${span(hungUp - from)}` : "had not ended when the recording did");
      if (error >= 0) parts.push(text(error));
      if (wait > 0) parts.push(`then a back-off of ${span(wait)}`);
      if (dead >= 0) parts.push("then the record went to the dead-letter topic");
      return [`execution ${number}${consumer < 0 ? "" : `, consumer ${consumer}`}`, ...parts];
    }
    const send = write[7][row.at];
    const [, , , , identity, command, client, server] = send;
    const parts = [];
    if (client) {
      const [sent, to, how, why] = client;
      parts.push(
        `client: sent at ${moment(began + sent)}` +
          (to < 0 ? ", no end seen" : `, ${how === "r" ? "reply" : how === "e" ? text(why) : `gave up (${text(why)})`} after ${span(to - sent)}`),
      );
    }
    if (server) {
      const [operation, connection, arrived, to, , why, heard, segments, marks] = server;
      const end = to < 0 ? data.duration - began : to;
      const doing = [];
      for (let at = 0; at < segments.length; at += 2) {
        const until = at + 3 < segments.length ? segments[at + 3] : end;
        if (until > segments[at + 1]) doing.push(`${data.states[segments[at]][1]} ${span(until - segments[at + 1])}`);
      }
      for (let at = 0; at < marks.length; at += 3) {
        doing.push(
          marks[at + 1]
            ? `answered from the history at ${moment(began + marks[at])}`
            : `committed ${many(marks[at + 2], "document")} at ${moment(began + marks[at])}`,
        );
      }
      doing.push(to < 0 ? "had not ended when the recording did" : `ended at ${moment(began + to)}: ${text(why)}${heard ? "" : ", with nobody there to hear it"}`);
      parts.push(`server: operation ${operation}, connection ${connection}: ${doing.join(", ")}`);
    } else {
      parts.push("server: never arrived");
    }
    return [`${sendName(send)} (${text(identity)}), ${text(command)}`, ...parts];
  };

  const cross = (at, y) => `<path class="cross" d="M${place(at - 3)} ${y - 3}l6 6m0-6l-6 6"/>`;
  const ruler = document.createElement("canvas").getContext("2d");
  const wide = (label, size) => {
    ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return ruler.measureText(label).width;
  };
  // A text after the end of a shape, or before its start where there is no room.
  const beside = (start, end, y, label, className) => {
    const isBefore = end + 6 + wide(label, 12) > plot + RIGHT;
    const at = !isBefore ? end + 6 : start > wide(label, 12) + 6 ? start - 6 : plot + RIGHT - 4;
    return `<text class="beside ${className}" x="${place(at)}" y="${y}" text-anchor="${isBefore ? "end" : "start"}">${escape(label)}</text>`;
  };

  const drawWrite = (write) => {
    const [, began, ended, fate, , , executions, , [width, points]] = write;
    let svg = "";
    const left = lastOfClient(write);
    const from = executions.length ? began + executions[0][2] : began;
    if (left >= 0) svg += `<path class="wait" d="M${place(near(from))} 5H${place(near(began + left))}"/>`;
    const moved = points.map((point) => [began + point[0], point[1], point[2]]);
    const path = steps(moved, width, 0, 1, (copies) => 27 - (12 * copies) / mostOfOne, ended);
    if (path) svg += `<path class="copies" d="${path}V27Z"/>`;
    if (left >= 0 && inSight(began + left, began + left)) {
      const bad = fate >= 3;
      svg += beside(x(from), x(began + left), 10, bad ? `✗ ${data.fates[fate]}` : fate === 2 ? "✓" : "", bad ? "t-bad" : "t-good");
    }
    return svg;
  };

  const drawExecution = (write, at) => {
    const began = write[1];
    const [, , from, to, error, waitFrom, wait, dead, hungUp] = write[6][at];
    const end = to >= 0 ? began + to : hungUp >= 0 ? began + hungUp : duration;
    let svg = "";
    if (inSight(began + from, end)) {
      const [a, b] = [near(began + from), near(end)];
      svg += `<rect class="run" x="${place(a)}" y="9" width="${place(Math.max(b - a, 1.5))}" height="12" rx="3"/>`;
    }
    if (wait > 0) svg += `<path class="off" d="M${place(near(began + waitFrom))} 15H${place(near(began + waitFrom + wait))}"/>`;
    if (inSight(end, end)) {
      if (dead >= 0) svg += beside(x(began + from), x(end), 19, "✗ dead letter", "t-bad");
      else if (hungUp >= 0) svg += beside(x(began + from), x(end), 19, "✗ the client hung up", "t-bad");
      else if (error >= 0) svg += beside(x(began + from), x(end), 19, "✗", "t-bad");
      else if (to >= 0) svg += beside(x(began + from), x(end), 19, "✓", "t-good");
    }
    return svg;
  };

  const drawSend = (write, at) => {
    const began = write[1];
    const [, , , , , , client, server] = write[7][at];
    let svg = "";
    if (server) {
      const [, , arrived, ended, isError, why, heard, segments, marks] = server;
      const end = ended < 0 ? duration - began : ended;
      let longest = [0];
      for (let at = 0; at < segments.length; at += 2) {
        const [state, from] = [segments[at], began + segments[at + 1]];
        const to = began + (at + 3 < segments.length ? segments[at + 3] : end);
        if (!inSight(from, to)) continue;
        const [a, b] = [near(from), near(to)];
        const box = `x="${place(a)}" y="10" width="${place(Math.max(b - a, 1.5))}" height="15"`;
        svg += `<rect class="b s-${data.states[state][0]}" ${box}/><rect ${box} fill="url(#p-${data.states[state][0]})"/>`;
        const [visibleFrom, visibleTo] = [Math.max(a, 0), Math.min(b, plot)];
        if (visibleTo - visibleFrom > longest[0]) longest = [visibleTo - visibleFrom, visibleFrom, state, to - from];
      }
      if (longest[0]) {
        const label = `${data.states[longest[2]][1]} ${span(longest[3])}`;
        const width = place(wide(label, 10.5) + 8);
        if (Number(width) + 10 < longest[0]) {
          svg += `<rect class="plate" x="${place(longest[1] + 6)}" y="12" width="${width}" height="11" rx="2"/>`;
          svg += `<text class="in" x="${place(longest[1] + 10)}" y="21.5">${label}</text>`;
        }
      }
      for (let at = 0; at < marks.length; at += 3) {
        const ms = began + marks[at];
        if (inSight(ms, ms)) svg += `<path class="${marks[at + 1] ? "replay" : "commit"}" d="M${place(x(ms))} 13l4.5 4.5-4.5 4.5-4.5-4.5z"/>`;
      }
      if (isError && inSight(began + ended, began + ended)) svg += beside(x(began + arrived), x(began + ended), 22, text(why), "t-bad");
      else if (!heard && inSight(began + ended, began + ended) && x(began + ended) + 110 < plot + RIGHT) {
        svg += `<text class="key" x="${place(x(began + ended) + 9)}" y="22">nobody hears of it</text>`;
      }
    }
    if (client) {
      const [sent, to, how] = client;
      const end = to < 0 ? duration : began + to;
      svg += `<path class="wait" d="M${place(near(began + sent))} 5v-3 3H${place(near(end))}"/>`;
      if (to >= 0 && inSight(end, end)) {
        svg += how === "r" ? `<circle class="heard" cx="${place(x(end))}" cy="5" r="3.2"/>` : cross(x(end), 5);
      }
    }
    return svg;
  };

  const drawRow = (row, at) => {
    const write = data.writes[row.write];
    let name = "";
    let life = "";
    let expanded = "";
    if (row.kind === "write") {
      const [, sends, , copies] = write[5];
      expanded = ` aria-expanded="${open.has(row.write)}"`;
      name = `<span class="twig" aria-hidden="true">▸</span> ${escape(write[0])} <small>${grouped(sends)} → ${grouped(copies)}</small>`;
      life = drawWrite(write);
    } else if (row.kind === "execution") {
      const [number, consumer] = write[6][row.at];
      name = `execution ${number}${consumer < 0 ? "" : ` <small>consumer ${consumer}</small>`}`;
      life = drawExecution(write, row.at);
    } else {
      const send = write[7][row.at];
      name = `${escape(sendName(send))} <small>(${escape(text(send[4]))})</small>`;
      life = drawSend(write, row.at);
    }
    return (
      `<div class="row ${row.kind}${at === active ? " active" : ""}" role="row" id="row-${at}" data-at="${at}" aria-level="${row.level}" ` +
      `aria-rowindex="${at + 1}" aria-selected="${at === active}"${expanded}>` +
      `<div class="cell" role="gridcell">${name}</div><div class="life" role="gridcell"><span class="said">${escape(describe(row).slice(1).join("; "))}</span>` +
      `<svg aria-hidden="true"><svg width="${plot + RIGHT}" height="29" x="0" overflow="hidden">${grid(29)}${life}</svg></svg></div></div>`
    );
  };

  const drawRows = () => {
    const first = Math.max(Math.floor(rowsBox.scrollTop / ROW) - 8, 0);
    const last = Math.min(Math.ceil((rowsBox.scrollTop + rowsBox.clientHeight) / ROW) + 8, rows.length);
    let html = "";
    for (let at = first; at < last; at += 1) html += drawRow(rows[at], at);
    // The chosen row stays in the document, so that what reads the page aloud can still find it.
    windowBox.innerHTML = html;
    windowBox.style.transform = `translateY(${first * ROW}px)`;
    if (active >= first && active < last) rowsBox.setAttribute("aria-activedescendant", `row-${active}`);
    else rowsBox.removeAttribute("aria-activedescendant");
  };

  const showRange = () => {
    const isWhole = view.from <= 0 && view.to >= duration;
    byId("range").textContent = isWhole ? "" : `${moment(view.from)} to ${moment(view.to)}`;
    byId("whole").disabled = isWhole;
    byId("zoom-out").disabled = isWhole;
    byId("earlier").disabled = view.from <= 0;
    byId("later").disabled = view.to >= duration;
  };

  let isDue = false;
  let isAllDue = false;
  const draw = (all) => {
    isAllDue = isAllDue || all;
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      if (isAllDue) {
        isAllDue = false;
        measure();
        drawOverTime();
        showRange();
        prepareGlance();
      }
      drawRows();
      drawGlance();
    });
  };

  const shown = byId("details");
  const details = (row) => {
    const [head, ...parts] = describe(row);
    const of = isMany && row.kind !== "write" ? `${data.writes[row.write][0]}: ` : "";
    shown.innerHTML = `<p><b>${escape(of + head)}</b></p>${parts.map((part) => `<p>${escape(part)}</p>`).join("")}`;
  };

  const choose = (at) => {
    if (!rows.length) return;
    active = Math.min(Math.max(at, 0), rows.length - 1);
    const top = active * ROW;
    if (top < rowsBox.scrollTop) rowsBox.scrollTop = top;
    else if (top + ROW > rowsBox.scrollTop + rowsBox.clientHeight) rowsBox.scrollTop = top + ROW - rowsBox.clientHeight;
    details(rows[active]);
    draw(false);
  };

  const toggle = (number, isOpen) => {
    if (isOpen) open.add(number);
    else open.delete(number);
    listRows();
    const at = rows.findIndex((row) => row.write === number && row.kind === "write");
    if (active >= 0) choose(at);
    draw(true);
  };

  // ---- zoom

  const look = (from, to) => {
    const least = Math.min(10, duration);
    let wide = Math.min(Math.max(to - from, least), duration);
    from = Math.min(Math.max(from, 0), duration - wide);
    view.from = from;
    view.to = from + wide;
    draw(true);
  };
  const zoom = (factor, around = (view.from + view.to) / 2) =>
    look(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const move = (part) => {
    const by = (view.to - view.from) * part;
    look(view.from + by, view.to + by);
  };
  byId("zoom-in").onclick = () => zoom(0.5);
  byId("zoom-out").onclick = () => zoom(2);
  byId("earlier").onclick = () => move(-0.25);
  byId("later").onclick = () => move(0.25);
  byId("whole").onclick = () => look(0, duration);

  const timeAt = (event, element) => {
    const at = (event.clientX - element.getBoundingClientRect().left - names) / plot;
    return view.from + Math.min(Math.max(at, 0), 1) * (view.to - view.from);
  };
  const chart = byId("over-time");
  let dragged = null;
  chart.addEventListener("pointerdown", (event) => {
    dragged = timeAt(event, chart);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const [a, b] = [x(dragged), x(timeAt(event, chart))];
    const brush = byId("brush");
    brush.setAttribute("visibility", "visible");
    brush.setAttribute("x", Math.min(a, b));
    brush.setAttribute("width", Math.abs(a - b));
  });
  chart.addEventListener("pointerup", (event) => {
    if (dragged === null) return;
    const [a, b] = [dragged, timeAt(event, chart)].sort((one, other) => one - other);
    dragged = null;
    if (x(b) - x(a) > 4) look(a, b);
    else draw(true);
  });
  for (const element of [chart, rowsBox, glance].filter(Boolean)) {
    element.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event, element));
      },
      { passive: false },
    );
  }
  if (glance) {
    glance.addEventListener("click", (event) => {
      const at = Math.floor(((event.clientY - glance.getBoundingClientRect().top) / glance.clientHeight) * order.length);
      choose(rows.findIndex((row) => row.write === order[Math.min(at, order.length - 1)]));
      rowsBox.scrollTop = active * ROW - rowsBox.clientHeight / 2;
    });
  }

  // ---- rows: pointer and keys

  const rowOf = (event) => {
    const element = event.target.closest(".row");
    return element ? Number(element.dataset.at) : -1;
  };
  windowBox.addEventListener("pointerover", (event) => {
    const at = rowOf(event);
    if (rows[at]) details(rows[at]);
  });
  windowBox.addEventListener("pointerleave", () => rows[active] && details(rows[active]));
  windowBox.addEventListener("click", (event) => {
    const at = rowOf(event);
    if (at < 0) return;
    const row = rows[at];
    choose(at);
    if (row.kind === "write") toggle(row.write, !open.has(row.write));
  });
  rowsBox.addEventListener("scroll", () => draw(false));
  rowsBox.addEventListener("focus", () => {
    if (active < 0) choose(Math.floor(rowsBox.scrollTop / ROW));
  });
  const page = () => Math.max(Math.floor(rowsBox.clientHeight / ROW) - 1, 1);
  const keys = {
    ArrowDown: () => choose(active + 1),
    ArrowUp: () => choose(active - 1),
    PageDown: () => choose(active + page()),
    PageUp: () => choose(active - page()),
    Home: () => choose(0),
    End: () => choose(rows.length - 1),
    ArrowRight: (row) => (row.kind === "write" && !open.has(row.write) ? toggle(row.write, true) : choose(active + 1)),
    ArrowLeft: (row) => {
      if (row.kind === "write") return open.has(row.write) ? toggle(row.write, false) : undefined;
      for (let at = active - 1; at >= 0; at -= 1) if (rows[at].level < row.level) return choose(at);
      return undefined;
    },
    Enter: (row) => row.kind === "write" && toggle(row.write, !open.has(row.write)),
    " ": (row) => row.kind === "write" && toggle(row.write, !open.has(row.write)),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: () => look(0, duration),
    "shift ArrowLeft": () => move(-0.25),
    "shift ArrowRight": () => move(0.25),
  };
  rowsBox.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = keys[(event.shiftKey && event.key.startsWith("Arrow") ? "shift " : "") + event.key];
    if (!key || !rows.length) return;
    event.preventDefault();
    if (active < 0) active = 0;
    key(rows[active]);
  });

  // ---- which writes, in which order

  if (isMany) {
    const fates = byId("fate");
    data.fates.forEach((label, number) => {
      const count = data.writes.filter((write) => write[3] === number).length;
      if (count) fates.append(new Option(`${label} (${grouped(count)})`, number));
    });
    const choices = () => {
      const wanted = byId("find").value.trim().toLowerCase();
      const by = byId("order").value;
      order = [...data.writes.keys()].filter((number) => {
        const write = data.writes[number];
        return (fates.value === "" || write[3] === Number(fates.value)) && write[0].toLowerCase().includes(wanted);
      });
      const weight = { copies: (write) => write[5][3] * 1e6 + write[5][1], long: (write) => write[2] - write[1] }[by];
      if (weight) order.sort((one, other) => weight(data.writes[other]) - weight(data.writes[one]) || one - other);
      active = -1;
      rowsBox.scrollTop = 0;
      listRows();
      byId("glance-name").firstChild.textContent = order.length === data.writes.length ? "all writes" : many(order.length, "write");
      draw(true);
    };
    for (const id of ["find", "fate", "order"]) byId(id).addEventListener("input", choices);
  }

  // Few writes are open from the start.
  if (data.writes.reduce((sum, write) => sum + write[6].length + write[7].length + 1, 0) <= 60) {
    for (const number of order) open.add(number);
  }
  listRows();
  new ResizeObserver(() => draw(true)).observe(rowsBox);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
  // What is worth looking at comes first: the first write of which the most copies ran.
  const worst = data.writes.findIndex((write) => write[4] === mostOfOne);
  if (isMany) rowsBox.scrollTop = Math.max(rows.findIndex((row) => row.write === worst), 0) * ROW;
  draw(true);
})();
