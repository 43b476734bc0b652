package auth

// Hashes returns how many password hashes were computed.
func (a *Auth) Hashes() uint64 { return a.hash.computed.Load() }
