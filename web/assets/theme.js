// Runs before the page is drawn, so that a chosen theme does not flash. Without a choice the system's theme holds.
try {
  const theme = localStorage.getItem('sealane.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage can be forbidden; the system's theme is as good.
}
