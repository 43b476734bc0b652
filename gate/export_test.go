package gate

// Guessers is how many addresses are remembered.
func Guessers(g *Guesses) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.by)
}
