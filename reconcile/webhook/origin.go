package webhook

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// origins tells where requests come from: the client that connects, or, where that is a
// proxy that we trust, whom it names.
type origins struct{ proxies []net.IPNet }

// of is the address that a request comes from; the zero one where it cannot be
// told. Each proxy appends to X-Forwarded-For who connected to it, so the list is
// believed from the right for as long as the one who wrote it is trusted: what a
// client wrote there itself stands left of that, and is not reached.
// https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/X-Forwarded-For#selecting_an_ip_address
func (o origins) of(r *http.Request) netip.Addr {
	from, ok := addressOf(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, ok := addressOf(strings.TrimSpace(hop))
		if !ok || !o.trusts(from) {
			break
		}
		from = before
	}
	return from
}

func (o origins) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(o.proxies, func(n net.IPNet) bool { return n.Contains(address.AsSlice()) })
}

// addressOf reads an address, with a port (some proxies write one) or without.
func addressOf(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err == nil
}
