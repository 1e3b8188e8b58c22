package reconcile

import "context"

func (p *pass) remove(context.Context) error { return nil }
func (p *pass) deletion() []step             { return nil }
