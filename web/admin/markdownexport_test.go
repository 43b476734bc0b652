package admin

// Rendered returns a page in Markdown as HTML, for tests.
func Rendered(text string) string { return string(parseMarkdown(text).html()) }
