package awssim

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/sts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// sessionLife is the default and maximum validity of credentials.
const sessionLife = time.Hour

func (a *account) stsActions() map[string]action {
	return map[string]action{
		"GetCallerIdentity":         query(a, a.getCallerIdentity),
		"AssumeRole":                query(a, a.assumeRole),
		"AssumeRoleWithWebIdentity": query(a, a.assumeRoleWithWebIdentity),
	}
}

func (a *account) getCallerIdentity(r *request, _ *sts.GetCallerIdentityInput) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{
		Account: aws.String(a.options.Account),
		Arn:     aws.String(r.principal.ARN),
		UserId:  aws.String(r.principal.AccessKey),
	}, nil
}

// assumeRole is for callers in the account: the trust policy has to name them, or the account.
func (a *account) assumeRole(r *request, in *sts.AssumeRoleInput) (*sts.AssumeRoleOutput, error) {
	assumed, err := a.roleOf(in.RoleArn)
	names := []string{r.principal.ARN, a.iamARN("root"), a.options.Account}
	if own, ok := a.roles[a.credentials[r.principal.AccessKey].role]; ok {
		names = append(names, own.arn)
	}
	asked := policy.Request{Action: "sts:AssumeRole", Caller: map[string][]string{"AWS": names}, Context: a.callContext(r)}
	if err != nil || policy.Trust(assumed.trusts, asked) != policy.Allow {
		return nil, notAssumable(r.principal.ARN, "sts:AssumeRole", aws.StringValue(in.RoleArn))
	}
	life := time.Duration(aws.Int64Value(in.DurationSeconds)) * time.Second
	credentials, user := a.session(assumed, aws.StringValue(in.RoleSessionName), life, nil)
	return &sts.AssumeRoleOutput{Credentials: credentials, AssumedRoleUser: user}, nil
}

// assumeRoleWithWebIdentity is IRSA: a token of a cluster's API server, for a role
// that trusts the cluster's OIDC provider.
func (a *account) assumeRoleWithWebIdentity(r *request, in *sts.AssumeRoleWithWebIdentityInput) (*sts.AssumeRoleWithWebIdentityOutput, error) {
	c, t, err := a.readToken(aws.StringValue(in.WebIdentityToken))
	if err != nil {
		return nil, err
	}
	provider := strings.TrimPrefix(c.issuer(a.options.Region), "https://")
	if _, ok := a.providers[a.providerARN(provider)]; !ok {
		return nil, wire.Errorf("InvalidIdentityToken", "No OpenIDConnect provider found in your account for https://%s", provider)
	}
	asked := policy.Request{
		Action:  "sts:AssumeRoleWithWebIdentity",
		Caller:  map[string][]string{"Federated": {a.iamARN("oidc-provider/" + provider)}},
		Context: a.callContext(r),
	}
	asked.Context.Set(provider+":sub", t.Subject)
	asked.Context.Set(provider+":aud", t.Audience...)
	assumed, err := a.roleOf(in.RoleArn)
	if err != nil || policy.Trust(assumed.trusts, asked) != policy.Allow {
		return nil, wire.Errorf("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity").WithStatus(http.StatusForbidden)
	}
	life := time.Duration(aws.Int64Value(in.DurationSeconds)) * time.Second
	credentials, user := a.session(assumed, aws.StringValue(in.RoleSessionName), life, nil)
	return &sts.AssumeRoleWithWebIdentityOutput{
		Credentials: credentials, AssumedRoleUser: user, SubjectFromWebIdentityToken: aws.String(t.Subject), Provider: aws.String(a.iamARN("oidc-provider/" + provider)),
	}, nil
}

// roleOf returns a role by its ARN.
func (a *account) roleOf(roleARN *string) (*role, error) {
	arn := aws.StringValue(roleARN)
	if r, ok := a.roles[arn[strings.LastIndex(arn, "/")+1:]]; ok && r.arn == arn {
		return r, nil
	}
	return nil, noSuchEntity("The role %s cannot be found.", arn)
}

// session creates temporary credentials of a role.
func (a *account) session(r *role, name string, life time.Duration, tags map[string]string) (*sts.Credentials, *sts.AssumedRoleUser) {
	if life <= 0 || life > sessionLife {
		life = sessionLife
	}
	key := strings.ToUpper(a.newResource("ASIA", nil, 0).ID)
	a.credentials[key] = credential{role: r.name, session: name, tags: maps.Clone(tags), expires: a.now.Add(life)}
	credentials := &sts.Credentials{
		AccessKeyId: aws.String(key), SecretAccessKey: aws.String("secret"), SessionToken: aws.String("token"),
		Expiration: aws.Time(a.now.Add(life)),
	}
	user := &sts.AssumedRoleUser{Arn: aws.String(a.sessionARN(r.name, name)), AssumedRoleId: aws.String(r.ID + ":" + name)}
	return credentials, user
}

func (a *account) sessionARN(roleName, session string) string {
	return a.arn("sts", "", fmt.Sprintf("assumed-role/%s/%s", roleName, session))
}
