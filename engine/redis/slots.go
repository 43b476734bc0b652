package redis

import (
	"context"

	"github.com/skerrydb/skerry/engine"
)

func openSlots(ctx context.Context, t target, o Options) (engine.Engine, error) {
	return nil, engine.ErrUnsupported
}
