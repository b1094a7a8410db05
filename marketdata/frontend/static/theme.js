// Before the first paint: the colours that were chosen. Without a choice the style sheet follows the system.
try {
  const chosen = localStorage.getItem('chart-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing */ }
