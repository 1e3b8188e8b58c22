package awssim_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// issuer signs tokens like a cluster's API server.
type issuer struct {
	url   string
	key   *ecdsa.PrivateKey
	clock *clock
}

// newIssuedAccount returns an account with a cluster whose tokens the test can sign.
func newIssuedAccount(t *testing.T) (*account, issuer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	c := newClock()
	s := awssim.New(awssim.Options{Region: region, Now: c.Now})
	noError(t, s.AddCluster(awssim.Cluster{Name: clusterName, Version: "1.36", Issuer: "https://oidc.example.com/id/A", TokenKey: &key.PublicKey}))
	a := serve(t, s)
	a.clock = c
	return a, issuer{url: "https://oidc.example.com/id/A", key: key, clock: c}
}

// token returns a token of a ServiceAccount, for an audience.
func (i issuer) token(t *testing.T, namespace, name, audience string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "sub": "system:serviceaccount:" + namespace + ":" + name, "aud": []string{audience}, "exp": i.clock.Now().Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]string{"name": name}, "pod": map[string]string{"name": "pod-1", "uid": "u"}},
	})
	noError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	noError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encode(signature)
}

// file writes a token to a file, as a kubelet does for a pod.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// whoami returns the identity of credentials.
func (a *account) whoami(t *testing.T, provider aws.CredentialsProvider) (string, error) {
	t.Helper()
	config := a.config("nobody")
	config.Credentials = provider
	out, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return *out.Arn, nil
}

const podsTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`

// TestPodIdentity: the SDK's own container provider, as in a pod, gets a session of the role associated with the
// ServiceAccount, and of no other.
func TestPodIdentity(t *testing.T) {
	a, tokens := newIssuedAccount(t)
	noError(t, a.AddRole(awssim.Role{Name: "reader", Trust: podsTrust}))
	noError(t, a.AddRole(awssim.Role{Name: "hermit", Trust: awssim.Trusted("ec2.amazonaws.com")}))
	client := eks.NewFromConfig(a.config("tester"))
	associate := func(serviceAccount, role string) {
		_, err := client.CreatePodIdentityAssociation(t.Context(), &eks.CreatePodIdentityAssociationInput{
			ClusterName: aws.String(clusterName), Namespace: aws.String("plumbline-system"), ServiceAccount: aws.String(serviceAccount),
			RoleArn: aws.String("arn:aws:iam::000000000000:role/" + role),
		})
		noError(t, err)
	}
	associate("plumbline", "reader")
	associate("other", "hermit")
	list, err := client.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String(clusterName), Namespace: aws.String("plumbline-system")})
	noError(t, err)
	if n := len(list.Associations); n != 2 {
		t.Errorf("%d associations in the namespace, want 2", n)
	}
	from := func(token string) aws.CredentialsProvider {
		path := file(t, token)
		return endpointcreds.New(a.url+awssim.AgentPath, func(o *endpointcreds.Options) {
			o.Retryer = aws.NopRetryer{}
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				text, err := os.ReadFile(path)
				return string(text), err
			})
		})
	}
	got, err := a.whoami(t, from(tokens.token(t, "plumbline-system", "plumbline", awssim.PodIdentityAudience)))
	noError(t, err)
	if want := "arn:aws:sts::000000000000:assumed-role/reader/eks-prod-"; !strings.HasPrefix(got, want) {
		t.Errorf("a pod of the ServiceAccount is %s, want %s…", got, want)
	}
	stranger := tokens
	stranger.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	late := tokens.token(t, "plumbline-system", "plumbline", awssim.PodIdentityAudience)
	for name, token := range map[string]string{
		"another ServiceAccount":     tokens.token(t, "default", "plumbline", awssim.PodIdentityAudience),
		"another audience":           tokens.token(t, "plumbline-system", "plumbline", "sts.amazonaws.com"),
		"a role that trusts others":  tokens.token(t, "plumbline-system", "other", awssim.PodIdentityAudience),
		"another API server's token": stranger.token(t, "plumbline-system", "plumbline", awssim.PodIdentityAudience),
		"what is no token":           "token",
	} {
		if who, err := a.whoami(t, from(token)); err == nil {
			t.Errorf("%s got the credentials of %s", name, who)
		}
	}
	a.clock.advance(time.Hour)
	if who, err := a.whoami(t, from(late)); err == nil {
		t.Errorf("an expired token got the credentials of %s", who)
	}
}

// TestWebIdentity is IRSA: the role's trust policy decides by audience and subject.
func TestWebIdentity(t *testing.T) {
	a, tokens := newIssuedAccount(t)
	noError(t, a.AddRole(awssim.Role{Name: "irsa", Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/oidc.example.com/id/A"},"Action":"sts:AssumeRoleWithWebIdentity",
		"Condition":{"StringEquals":{"oidc.example.com/id/A:aud":"sts.amazonaws.com","oidc.example.com/id/A:sub":"system:serviceaccount:plumbline-system:plumbline"}}}]}`}))
	cluster, err := eks.NewFromConfig(a.config("tester")).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
	noError(t, err)
	if got := *cluster.Cluster.Identity.Oidc.Issuer; got != tokens.url {
		t.Errorf("EKS names the issuer %s, want %s", got, tokens.url)
	}
	from := func(token string) aws.CredentialsProvider {
		return stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(a.config("nobody")), "arn:aws:iam::000000000000:role/irsa", stscreds.IdentityTokenFile(file(t, token)),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = "pod" })
	}
	got, err := a.whoami(t, from(tokens.token(t, "plumbline-system", "plumbline", "sts.amazonaws.com")))
	noError(t, err)
	if want := "arn:aws:sts::000000000000:assumed-role/irsa/pod"; got != want {
		t.Errorf("a pod of the ServiceAccount is %s, want %s", got, want)
	}
	for name, token := range map[string]string{
		"another ServiceAccount": tokens.token(t, "default", "plumbline", "sts.amazonaws.com"),
		"another audience":       tokens.token(t, "plumbline-system", "plumbline", awssim.PodIdentityAudience),
	} {
		if _, err := from(token).Retrieve(t.Context()); code(err) != "AccessDenied" {
			t.Errorf("%s: error %v, want AccessDenied", name, err)
		}
	}
}

// TestSessionsEnd: expired credentials are rejected.
func TestSessionsEnd(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddRole(awssim.Role{
		Name: "guest", Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000000:user/tester"},"Action":"sts:AssumeRole"}]}`,
	}))
	assume := func(who string) (*sts.AssumeRoleOutput, error) {
		return sts.NewFromConfig(a.config(who)).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::000000000000:role/guest"), RoleSessionName: aws.String("s")})
	}
	_, err := assume("somebody")
	wantCode(t, err, "AccessDenied")
	out, err := assume("tester")
	noError(t, err)
	client := iam.NewFromConfig(a.config(*out.Credentials.AccessKeyId))
	_, err = client.ListRoles(t.Context(), &iam.ListRolesInput{})
	wantCode(t, err, "AccessDenied")
	a.clock.advance(time.Hour)
	_, err = client.ListRoles(t.Context(), &iam.ListRolesInput{})
	wantCode(t, err, "ExpiredToken")
}
