// The commands of the page with their keys: what keyboard.js runs, help.js lists and the toolbar's titles name.

// {keys, about, code?}: `code` is the physical key of a command that Alt+key runs. page.js has the function of each name.
export const COMMANDS = {
  symbol: { keys: ['A', '…', 'Z', '/'], about: 'Search a symbol; letters begin the search' },
  interval: { keys: ['1', '…', '9'], about: 'Choose an interval: 5, 1h, 1d; a plain number is minutes' },
  letters: { keys: [','], about: 'Choose an interval by its letter: D, W, M' },
  move: { keys: ['←', '→'], about: 'Move the chart' },
  read: { keys: ['Shift+←', 'Shift+→'], about: 'Read the previous or the next candle' },
  zoom: { keys: ['+', '−'], about: 'Zoom' },
  newest: { keys: ['End'], about: 'The newest candles' },
  reset: { keys: ['Alt+R'], code: 'KeyR', about: 'The newest candles at their first size' },
  date: { keys: ['Alt+G'], code: 'KeyG', about: 'Go to a date' },
  range: { keys: ['Alt+1', '…', 'Alt+6'], about: 'Show a day, a week, a month, 3 months, a year, all' },
  back: { keys: ['Alt+←'], about: 'Back to the symbol before' },
  type: { keys: ['Alt+Y'], code: 'KeyY', about: 'The next type: candles, hollow, bars, line, area' },
  log: { keys: ['Alt+L'], code: 'KeyL', about: 'Logarithmic prices' },
  percent: { keys: ['Alt+P'], code: 'KeyP', about: 'Prices as percent of the first one in sight' },
  auto: { keys: ['Alt+A'], code: 'KeyA', about: 'Fit the prices to the candles again, after the axis was dragged' },
  invert: { keys: ['Alt+I'], code: 'KeyI', about: 'Turn the prices upside down' },
  connected: { keys: ['Alt+E'], code: 'KeyE', about: 'Let a candle open at the close of the candle before' },
  indicators: { keys: ['Alt+N'], code: 'KeyN', about: 'Indicators' },
  watchlist: { keys: ['Alt+W'], code: 'KeyW', about: 'Watchlist' },
  trades: { keys: ['Alt+T'], code: 'KeyT', about: 'List of trades' },
  corrections: { keys: ['Alt+J'], code: 'KeyJ', about: 'What was corrected' },
  more: { keys: ['Alt+O'], code: 'KeyO', about: 'More: copy, save, colours' },
  link: { keys: ['Alt+K'], code: 'KeyK', about: 'Copy the link of this view' },
  image: { keys: ['Alt+M'], code: 'KeyM', about: 'Copy the chart as a picture' },
  csv: { keys: ['Alt+C'], code: 'KeyC', about: 'Save the candles in sight as CSV' },
  png: { keys: ['Alt+S'], code: 'KeyS', about: 'Save the chart as a picture' },
  zone: { keys: ['Alt+Z'], code: 'KeyZ', about: 'Choose the time zone, where days and buckets begin' },
  full: { keys: ['Alt+Enter'], code: 'Enter', about: 'Full screen' },
  close: { keys: ['Esc'], about: 'Close what is open' },
  help: { keys: ['?'], about: 'This table' },
};

// The title of a control: what the command does, with its keys.
export const titled = (name) => `${COMMANDS[name].about} (${COMMANDS[name].keys.join(' ')})`;
