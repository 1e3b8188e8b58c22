package cloud

import (
	"encoding/pem"
	"testing"
)

func TestVerify(t *testing.T) {
	certificate := func(der string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})
	}
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Subject": "kubernetes"}, Bytes: []byte("ours")})
	running := []Instance{{ID: "i-1", State: "running"}}
	cases := map[string]struct {
		server, cluster []byte
		live            []string
		visible         []Instance
		want            string
	}{
		"the same":                         {server: certificate("ours"), cluster: certificate("ours"), want: ReasonVerified},
		"the same, written otherwise":      {server: append([]byte("# bundle\r\n"), headed...), cluster: certificate("ours"), want: ReasonVerified},
		"one of a bundle":                  {server: append(certificate("proxy"), certificate("ours")...), cluster: certificate("ours"), want: ReasonVerified},
		"another cluster":                  {server: certificate("ours"), cluster: certificate("theirs"), want: ReasonAuthorityDiffers},
		"one that is being rotated":        {server: append(certificate("old"), certificate("older")...), cluster: append(certificate("old"), certificate("new")...), want: ReasonVerified},
		"no authority here":                {cluster: certificate("ours"), want: ReasonAuthorityUnknown},
		"no authority there":               {server: certificate("ours"), want: ReasonAuthorityUnknown},
		"its instances are seen":           {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-1"}, visible: running, want: ReasonVerified},
		"one of them is too new":           {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-1", "aws:///eu-west-1a/i-2"}, visible: running, want: ReasonVerified},
		"its instances are in another one": {server: certificate("ours"), cluster: certificate("ours"), live: []string{"aws:///eu-west-1a/i-9"}, visible: running, want: ReasonInstancesInvisible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Verify(Cluster{Name: "demo", CertificateAuthority: c.cluster}, c.server, c.live, c.visible)
			if got.Reason != c.want || got.OK != (c.want == ReasonVerified) || got.Message == "" {
				t.Errorf("got %+v, want reason %s", got, c.want)
			}
		})
	}
}
