package mail

import "time"

// Wait sets how long Run still takes messages at the stop. Call it before Run.
func (s *SMTP) Wait(d time.Duration) { s.grace = d }
