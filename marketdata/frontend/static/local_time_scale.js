// The library's time scale with the days of a time zone. The library gets each time in seconds since 1970 in UTC, so a repeated
// hour in autumn stays in order. By itself it would begin days, months and years at midnight in UTC.

import { defaultHorzScaleBehavior, TickMarkType } from './vendor/lightweight-charts.mjs';
import { width } from './intervals.js';
import { offsetAt, parts } from './time_zones.js';

// What may begin at a time, and the weight that the library gives to its mark.
const DAY = 86_400;
const UNITS = [[43_200, 33], [21_600, 32], [10_800, 31], [3600, 30], [1800, 22], [300, 21], [60, 20], [1, 10]];
const [DAY_WEIGHT, MONTH_WEIGHT, YEAR_WEIGHT] = [50, 60, 70];

export class LocalTimeScale extends defaultHorzScaleBehavior() {
  constructor() {
    super();
    this.zone = 'UTC';
  }

  // The library calls this for the points from `start` on, after it was called for those before. The first point of all
  // gets the weight of what begins exactly at its time.
  fillWeightsForPoints(points, start) {
    if (start >= points.length) return; // the last point was removed
    const local = (time) => time + offsetAt(time * 1000, this.zone) / 1000;
    let before = start ? local(points[start - 1].originalTime) : local(points[0].originalTime) - 1;
    for (let at = start; at < points.length; at += 1) {
      const now = local(points[at].originalTime);
      points[at].timeWeight = weight(before, now);
      before = now;
    }
  }
}

// The weight of the greatest unit that begins between two times. Both are in seconds on the clocks of the zone.
function weight(before, now) {
  const isIn = (length) => Math.floor(before / length) !== Math.floor(now / length);
  if (!isIn(DAY)) return UNITS.find(([length]) => isIn(length))?.[1] ?? 0;
  const [one, other] = [new Date(before * 1000), new Date(now * 1000)];
  if (one.getUTCFullYear() !== other.getUTCFullYear()) return YEAR_WEIGHT;
  return one.getUTCMonth() === other.getUTCMonth() ? DAY_WEIGHT : MONTH_WEIGHT;
}

// The label of a mark of the time axis. `kind` is the library's TickMarkType.
export function tickMark(time, kind, zone) {
  const { year, month, day, minute, second } = parts(time * 1000, zone);
  if (kind === TickMarkType.Year) return year;
  if (kind === TickMarkType.Month) return month;
  if (kind === TickMarkType.DayOfMonth) return day;
  return kind === TickMarkType.Time ? minute : second;
}

// The label of the crosshair on the time axis.
export function timeLabel(time, { interval, zone }) {
  const { weekday, date, minute, second } = parts(time * 1000, zone);
  const length = width(interval);
  if (length >= DAY * 1000) return `${weekday} ${date}`;
  return `${weekday} ${date} ${length < 60_000 ? second : minute}`;
}
