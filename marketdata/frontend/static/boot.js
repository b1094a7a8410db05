// Runs before the first paint. Applies the chosen colours. Without a choice, the style sheet follows the system.
try {
  const chosen = localStorage.getItem('chart-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch { /* the browser refuses storage */ }

// Reports a script that does not load.
addEventListener('error', (event) => {
  if (event.target.localName !== 'script') return;
  const message = document.getElementById('message');
  message.hidden = false;
  message.textContent = 'The page cannot start: one of its scripts did not load. Reload the page.';
}, true);
