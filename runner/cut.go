package runner

import "unicode/utf8"

// cutAt keeps at most limit bytes, whole characters, and says how many are left out.
func cutAt(text string, limit int) (kept string, left int) {
	if len(text) <= limit {
		return text, 0
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], len(text) - limit
}
