// Runs before the first paint. Applies the chosen colours. Without a choice, the style sheet follows the system.
try {
  const chosen = localStorage.getItem('chart-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch { /* the browser refuses storage */ }

// Reports a script that does not load. Usually it is the chart library, because the set-up could not fetch it.
addEventListener('error', (event) => {
  if (event.target.localName !== 'script') return;
  const message = document.getElementById('message');
  message.hidden = false;
  message.textContent = 'The page cannot start: one of its scripts is missing. Where a package registry can be reached, '
    + 'bin/start --setup fetches the chart library.';
}, true);
