// Package stories contains the stories that users tell: testscripts over a sandbox in which everything is real except
// AWS. stories.txt lists them; each is a script in testdata/scripts.
//
//	go test ./stories                            all of them, a group on each core
//	go test ./stories -run 'TestStories/suspend' one
//	go test ./stories -run … -keep               and keep the sandbox, to look around
//
// Each story has its own repository on the Git host, cloned in $WORK/repo, and a kubeconfig of the administrator, whose
// namespace is plumbline-system and whom the deletion guard allows to delete; $MANIFESTS is the folder manifests of the
// checkout; $REPO_URL is the URL of the repository, and $FLEET the folder in which the readers of pages clone it. Its
// first comment tells what the user does and sees; its last line checks what is left in AWS. In its YAML files,
// @REPOSITORY@, @CHARTS@, @CLUSTER@ and @REGION@ are replaced with those of the sandbox; @KARPENTER@ is the newest
// version of Karpenter, in commands, too. Nothing sleeps: commands wait for a condition, with a deadline (-t, default
// 30s). If the daemon modifies an object of its watch cache, it exits and the story fails. A story also fails if
// plumbline reports something untrue about nodes for 15 s, according to package witness: for example, a commit is a
// success while a removal is open, or a removal that is Held proceeds.
//
// These commands are added to testscript's own (! before any of them expects a failure):
//
//	seed [FOLDER]
//		Copies testdata/basic into the clone, or into a folder of it: plumbline.yaml, the class default, the pools
//		general (weight 50) and batch (weight 10).
//	edit FILE OLD NEW
//		Replaces the only occurrence of OLD in a file of the clone.
//	push MESSAGE
//		Commits the changes in the clone and pushes them.
//	pushes N OLD NEW FILE…
//		Pushes N commits as fast as possible; each replaces OLD, or what the previous one has put there, with NEW in
//		all of the files. %d in NEW is the commit's number.
//	git, kubectl, helm, plumbline ARGS
//		Runs the program; stdout and stderr check its output. git runs in the clone; plumbline runs as the
//		administrator.
//	exits CODE PROGRAM ARGS
//		Runs one of them, and expects this exit code.
//	named NAME
//		Sets $NAME to the output of the previous program.
//	expect [-t D] PROGRAM ARGS ~ REGEX
//		Runs one of them repeatedly until its output matches.
//	daemon pod FILE PATTERN
//		Runs the container of a Pod until it exits, in the environment of deploy, and checks its output.
//	on CLUSTER
//		Makes all commands address another cluster of the account from now on; sandbox is the story's own. A cluster that
//		does not exist yet is started: an empty one with a control plane of its own, in which plumbline is installed and
//		no daemon runs. It has the same charts and Git host, and is stopped with the story. Its daemon, NodeSyncs,
//		workloads and instances are its own, and so are the counts since mark.
//	daemon [other] start|deploy|limited|cramped|stop|kill|pause|cont|ends|forget [FLAGS]
//		Controls the daemon, which runs with the permissions of manifests/. deploy starts it as a pod of its
//		Deployment (the cluster's own if Helm has installed one), and other as the second one; that requires root,
//		which a script checks with [root]. limited starts it with the GOMEMLIMIT of its Deployment, cramped on a full
//		disk: none of its files can grow. stop sends SIGTERM, and expects a clean exit; kill sends SIGKILL; pause and
//		cont freeze and resume it; ends waits until it has exited on its own; forget empties the cache of a stopped
//		daemon, as a Pod on another machine would find it. other is a second daemon; if it exits, the story does not
//		fail.
//	flux start|stop, helm-controller start|stop, notification-controller start|stop, argocd start|stop,
//	argocd-notifications start|stop
//		Controls the real controllers of Flux, in flux-system, and of Argo CD, in argocd. start builds what is
//		missing, and applies the Secret git there, with the credentials for the story's repository. The
//		notification-controller sets $EVENTS, the address for events: those of a Flux that is started later, and those
//		of a daemon with --events-addr.
//	leads [-t D] [other]
//		Waits until the daemon, or the other one, holds the leader's lease.
//	api up|down|hang|429 [DURATION], api slow DELAY, api expire
//		Controls the connection between the daemon and the API server; the rest of the cluster is not affected. Use it
//		first before the daemon is started. With a duration, the fault ends automatically. expire cuts all watches;
//		new watches do not return the events that were missed.
//	api writes = N
//		Counts the daemon's requests to the API server that change anything.
//	rbac take VERB RESOURCE, rbac give
//		Removes a verb from plumbline's ClusterRoles and Roles, and restores all of them.
//	token FILE
//		Writes a kubeconfig with the token of the daemon's ServiceAccount, for kubectl --kubeconfig.
//	admission rejects|hangs KIND[/NAME], admission off
//		Adds an admission webhook, sizes.example.com, for these objects, and removes it.
//	term POINT [FLAGS]
//		Starts the daemon, sends SIGTERM as soon as it reaches a step point (NAME#N), and checks that it exits cleanly
//		within a Pod's grace period.
//	killed [sample=N] SCENE…
//		Plays scenes with a NodeSync "killed" repeatedly, each time killing the daemon at other points that it
//		reaches, and checks that the result is the same as without a kill: first-push, change, removal, deletion,
//		drain, stand-in (without a daemon, the command that drains in its place is killed), whole (that command, down
//		to Karpenter's CRDs), sweeps, terminates, cluster-gone (it deletes things in AWS), upgrade, rollback.
//		PLUMBLINE_FULL=1 kills at all points, otherwise PLUMBLINE_SEED draws five; sample draws N of each scene, in
//		both tiers, unless PLUMBLINE_KILL=everywhere. -points REGEX kills at those that it matches.
//	nodesync NAME [FIELD=VALUE…]
//		Applies a NodeSync that follows the story's repository; fields of its spec are given by their path, values in
//		YAML. Fields given earlier are kept. By default, removals have a grace of 1s, drain all nodes in one step, and
//		count for guard.removalPeriod 0s.
//	deploykey SECRET
//		Allows a new key to read the story's repository over ssh, and applies the Secret with the key. Sets $SSH_URL,
//		$SSH_HOST and $SSH_KEY, a line of the key, and $WEB_URL, the repository's page.
//	signer NAME openpgp|expired|ssh
//		Creates a key with gpg or ssh-keygen; an expired one was valid for a day in 2025.
//	sign NAME|none
//		Makes git sign each commit in the clone with a signer's key from now on, or none.
//	ringkey NAME
//		Creates the SSH key of a cluster of a fleet and the Secret NAME-key with it, and sets $NAME_KEY, in upper case,
//		to the public key.
//	signers SECRET NAME…
//		Applies the Secret with the public keys of only these signers.
//	sops key NAME SECRET
//		Creates a key of age, and applies the Secret with it.
//	sops encrypt NAME FILE
//		Encrypts all values of a YAML file for that key, with the real sops.
//	webhook TOKEN
//		Makes the Git host send pushes to the story's repository, signed with the token, to $WEBHOOK: a free address
//		for the daemon's --webhook-addr.
//	browse address
//		Sets $PAGE, a free address for the daemon's --page-addr.
//	browse PATH ~ REGEXP
//		Waits until the text of the daemon's page matches.
//	browse same NODESYNC
//		Waits until the page shows what plumbline status prints.
//	browse pictures PATH
//		Takes screenshots with Chromium, if installed, in light, dark and narrow, into $PLUMBLINE_PICTURES.
//	pull open BRANCH
//	pull fork BRANCH [USER]
//		Pushes the changes in the clone to a branch, of the repository or of another user's fork, and opens a pull
//		request for it into main. Sets $PULL to its number.
//	pull before BRANCH OTHER… ~ REGEX
//		Waits until the pull requests of BRANCH and of another branch have a comment that matches, and checks that the
//		one on BRANCH is older than those on the others.
//	pull push|close|merge
//		Pushes the changes to the branch of that pull request, closes it, or merges it and pulls main into the clone.
//	pull proposed N [~ REGEX]
//		Waits until the daemon has opened N pull requests, whatever their state, the newest of which matches by its
//		title and text. Sets $PULL and $PULL_URL, its page.
//	pull comments N [~ REGEX]
//		Waits until it has N comments, the last of which matches.
//	ci FILE JOB [KEY=VALUE…]
//		Checks out the branch of that pull request, and runs the scripts of a job of a file of examples/ci in it, in
//		order, with only the job's and the given environment.
//	actions run FILE [KEY=VALUE…]
//		Adds a pipeline of examples/ci to the clone, with these values of the variables at its top, and starts a
//		runner of the repository's Gitea Actions.
//	actions [-t D] success|failure [~ REGEX]
//		Waits until the only job on the head of that pull request has this result, the commit's status shows it, and
//		the job's log matches.
//	receiver
//		Starts a host at $RECEIVER_URL that accepts all POST requests.
//	receiver [-t D] PATH N ~ REGEX
//		Waits until N of the requests to its path match.
//	parrot
//		Starts a host at $PARROT that answers every request with an error that repeats the request's credentials, in
//		every encoding. Sets $METRICS and $PROFILES, free addresses for the daemon's --metrics-addr and
//		--profiling-addr.
//	parrot heard SECRET|nothing
//		Waits until it was sent the secret; or checks that it received no request.
//	unsaid SECRET…
//		Checks that none of them, in any encoding, is in the daemon's log, status, events, ConfigMaps, commit
//		statuses, metrics or profiles, nor in what plumbline prints about the first NodeSync.
//	bomb NAME FOLDER
//		Writes a small commit that is expensive to process into a folder of the clone: aliases, brackets, large,
//		kustomizations; archives, loop, hoard (charts); tree, which is pushed immediately.
//	bomb objects BRANCH
//		Pushes a branch with more objects than one fetch may contain.
//	bomb index
//		Serves a chart repository with a large index, and sets $INDEX to its URL.
//	memory watch, and then memory within
//		Watches the memory of the daemon and its children, and checks that it was always less than its Deployment's
//		limit.
//	metrics, and then metrics watch
//		Sets $METRICS, a free address for the daemon's --metrics-addr; scrapes it each second.
//	metrics [-t D] ~ REGEX
//		Waits until a metric of a daemon that serves metrics without authentication matches.
//	metrics shown
//		Stops scraping, and checks with Prometheus' library that each panel of the dashboard shows some of the scraped
//		data, and which alerts would have fired.
//	logged [-t D] ~ REGEX
//		Waits until the daemon has logged a line that matches.
//	githost stop|start|pause|cont
//		Controls the Git host. stop crashes it, start restarts it at the same address; pause freezes it, so that it
//		accepts connections but does not respond.
//	await [-t D] KIND/NAME [CONDITION=STATUS] [reason=R] [at=HEAD] [~ REGEX]
//		Waits until the object exists and has the condition, with a message that matches. Ready=True of a NodeSync
//		must be for the clone's HEAD; at=HEAD requires that for other conditions, too; at=any does not require it.
//	await [-t D] gone KIND/NAME
//		Waits until the object does not exist.
//	removal [-t D] NODESYNC KIND/NAME PHASE|Stalled|any|none [~ REGEX]
//		Waits until the removal is in this phase, with a message that matches; any is any phase.
//	release NODESYNC KIND/NAME
//		Annotates the NodeSync to release a removal that is held because the status was lost.
//	events [-t D] NAME ~ REGEX
//		Waits for an event about NAME, newer than the story, as "Reason: message".
//	quiet DURATION NODESYNC
//		Watches for that time that no condition of the NodeSync changes and that there is no new event about it.
//	status [-t D] state=STATE [at=COMMIT] [subject=applied|drift|plan] [~ REGEX]
//		Waits until the newest status that the cluster's daemon has posted on the clone's HEAD, or on another commit,
//		matches; without a subject, the overall one.
//	statuses STATE…
//		Checks that HEAD has had these states, in order, and that no description is longer than Git hosts show.
//	contexts REGEX
//		Waits until the newest status of each context on HEAD, sorted, as CONTEXT=STATE, match.
//	statushost up|down|CODE
//		Makes the Git host's API for commit statuses respond, not respond, or respond with a code. Sets $STATUS_URL,
//		the repository's page there, for report.url.
//	statushost posted COMMIT STATE…
//		Waits until the Git host has accepted exactly these states through $STATUS_URL for a commit, in order, each as
//		often as it is listed.
//	upstream EXAMPLE [FOLDER]
//		Copies one of Karpenter's own examples to FOLDER/upstream.yaml in the clone, by default in nodes.
//	userdata CLASS EXAMPLE
//		Waits until the class has the example's user data, byte for byte except ${CLUSTER_NAME}.
//	workload NAME replicas=N [pool=POOL] [pdb=N] [volume=SIZE]
//		Applies a Deployment with a node for each pod, and waits until all are available. pdb adds a
//		PodDisruptionBudget with that minAvailable; volume makes its pod use an EBS volume.
//	workload NAME gone
//		Deletes it.
//	kubelet breaks NODE-LABEL=VALUE [pods=LABEL=VALUE] [resource=RESOURCE]
//		Makes pods crash on the nodes with a label that their NodePool gives them: those that exist, and later ones.
//		With a resource, only pods that request it crash, and their nodes offer none of it any more.
//	kubelet works
//		Ends that. Pods that crash are not repaired.
//	volumes driver [intolerant]
//		Installs the EBS CSI driver; an intolerant one does not tolerate a drain, as before chart 1.37.
//	volumes leave NODE
//		Creates a VolumeAttachment of a node that does not exist.
//	volumes [-t D] attached = N
//		Waits until there are N VolumeAttachments.
//	volumes follow, and then volumes moved = N
//		Watches the volumes of claims, and checks that N of them were attached to another node since, that each is
//		still the same, and that none was attached twice; prints how long each took.
//	available NAME watch, and then available NAME [serving] >= N
//		Watches how many pods of a workload are available, and checks that there were always at least N. serving
//		counts, every 200 ms, those that are Ready, including those in their grace period.
//	ec2 [-t D] count [pool=POOL] = N
//		Waits until N instances are pending or running.
//	ec2 [-t D] left = empty
//		Waits until nothing in AWS has the cluster's tags.
//	ec2 keep [pool=POOL]
//		Remembers the instances; `ec2 kept` fails if one of them no longer runs.
//	mark
//		Resets the counts of writes, renders, children and calls.
//	writes [KIND[/NAME]] = N|KIND[/NAME]
//		Counts the daemon's successful writes to definitions (NodePools, EC2NodeClasses, NodeClaims), except those to
//		status, and checks that there are N, or as many as to something else.
//	deletes KIND…
//		Checks that the daemon has deleted objects of these kinds, all of one kind before the first of the next.
//	renders = N
//		Counts how often the daemon has rendered.
//	children = N
//		Counts the child processes that the daemon has started.
//	calls WHO ACTION =|<= N
//		Counts calls to AWS by plumbline, the user of `plumbline doctor`, or anyone; * and ? are wildcards.
//	fault WHO SERVICE ACTION KIND [DURATION|N/s|Nx]
//		Disturbs calls to AWS: deny, throttle, expire, delay, loseResponse, hide; for a duration, above a rate per
//		second, or a number of times. * and ? are wildcards.
//	fault WHO SERVICE ACTION error CODE [Nx]
//		Makes calls to AWS fail with an error code of AWS's, such as InternalError.
//	fault off
//		Ends all faults.
//	answers WHO [flap=SHARE] [lag=D] [settle=D] [short=SHARE] [empty=SHARE] [tags=D] [token=D], answers usual
//		Makes EC2's lists of instances, for plumbline or anyone, as inconsistent as they may be: flap is the share of
//		answers that omit an instance, lag how old the data may be, settle for how long after its last change both
//		apply to an instance; short and empty are the shares of such pages, tags is how long a terminated instance
//		keeps its tags, token how long the token of a next page is valid.
//	zone ZONE down|up
//		Disrupts an availability zone: EC2 rejects queries without the IDs of instances in other zones, and launches
//		or terminates nothing there.
//	eks status STATUS, eks gone|back
//		Makes EKS report the cluster's status, such as UPDATING, or that the cluster does not exist; back ends that.
//	account twin|empty|own
//		Gives plumbline the credentials of another account, with or without a cluster of the same name; or its own
//		again.
//	elsewhere adds CLUSTER, elsewhere runs
//		Adds another EKS cluster with one node to the account; checks that this node runs.
//	rival start [VALUE=…]
//		Starts a second control plane with a Karpenter of its own, as an EKS cluster of the account whose role has no
//		condition on the cluster, but with the name of the story's cluster as settings.clusterName; values are those of
//		helm's --set. Sets $RIVAL to its API server. No daemon of plumbline runs there.
//	rival kubectl ARGS, rival stop
//		Runs kubectl as its administrator; stops it, and terminates its instances.
//	rival contexts FILE
//		Writes a kubeconfig with the contexts ours and theirs, of the administrators of both clusters.
//	rival [-t D] count =|>= N, rival keep, rival kept
//		Waits until N instances run for it; remembers them; fails if one of them no longer runs.
//	capacity short [type=T] [zone=Z] [market=M], capacity back
//		Makes launches fail for lack of capacity; back ends that.
//	ec2 kill|interrupt [pool=POOL]
//		Terminates an instance manually; makes EC2 reclaim a spot instance, after a warning.
//	ec2 spoil IMAGES, ec2 unspoil
//		Makes instances of matching images terminate when launched; unspoil ends that.
//	aws publishes VERSION
//		Publishes a release of AL2023, such as v20251103, which becomes the newest. A running controller queries for
//		it within a day.
//	aws withdraws VERSION [KUBERNETES]
//		Deletes the images of a release of AL2023, of one version of Kubernetes or of all, and the SSM parameters that
//		name them. They are restored after the story.
//	aws tags|untags GROUP KEY=VALUE, aws role gone|back, aws role lacks|has ACTION
//		Adds a tag to a security group of the cluster's VPC, or removes it; deletes or restores the role of
//		Karpenter's controller, or removes an action from its policies or adds it again.
//	aws policies FILE|back
//		Replaces all policies of Karpenter's role with the one in a file, in which @CLUSTER@ and @REGION@ are replaced;
//		back restores them.
//	aws addon NAME gone|back, aws nodeaccess gone|back, aws rule NAME gone|back
//		Removes an EKS add-on, the access entry of the nodes' role, or disables one of the rules that send events to the
//		interruption queue: spot, rebalance, state-change, scheduled-change or capacity-reservation; back restores it.
//	aws route gone|back, aws endpoints gone|back
//		Removes the default route, or the VPC endpoints, of the cluster's VPC. Without both, no instance becomes a node.
//	aws quota CODE VCPUS|back, aws key FILE|back, aws scp FILE|back, aws insight STATUS|back, aws authentication MODE|back
//		Sets one of EC2's quotas; encrypts the interruption queue with a KMS key that has the policy in a file; gives
//		the account the service control policy in a file; sets the status of the cluster's EKS insight, such as ERROR; sets
//		how EKS authenticates, such as CONFIG_MAP. back restores it, and so does the end of the story.
//	aws user NAME FILE
//		Makes the AWS credentials of what follows those of a user who may do exactly what the policies in a file allow, as
//		plumbline iam-policy -o json prints them.
//	aws nodegroup FILE
//		Adds a managed node group, from awssim.NodeGroup as JSON, until the end of the story. It has instances, which join
//		the cluster, only if it Launches them.
//	aws scaling FILE, aws fargate NAME NAMESPACE
//		Adds a self-managed Auto Scaling group, from awssim.ScalingGroup as JSON, or a Fargate profile, until the end of
//		the story.
//	aws applies ADDON NAMESPACE/DEPLOYMENT
//		Writes the affinity in the configuration values of an add-on into a Deployment whenever they change, as EKS does,
//		until the end of the story.
//	aws allows POLICY
//		Adds a policy of manifests/, such as iam-policy-protect.json, to plumbline's role until the end of the story.
//	prometheus fires|quiet
//		Starts a fake Prometheus, whose URL is in PROMETHEUS_URL; any query has a result, or none.
//	ec2 stop|protect [pool=POOL], ec2 start, ec2 unprotect
//		Stops an instance manually, or makes EC2 refuse to terminate it; start and unprotect revert that for the last
//		affected instance.
//	ec2 untag
//		Removes the pool's tag from the last terminated instance.
//	ec2 stray pool=POOL, ec2 end
//		Launches an instance of a pool without a NodeClaim; terminates the last affected instance.
//	ec2 leave [class=CLASS], ec2 clear [class=CLASS]
//		Leaves a volume and an interface with the cluster's tags, or a launch template and an instance profile of an
//		EC2NodeClass; deletes those that are unattached, or have the class's tag.
//	ec2 asked
//		Checks that plumbline has successfully queried EC2 for the last terminated instance by its ID since the mark.
//	karpenter images VERSION…
//		Builds the controllers of older releases, so that no pod waits for its image.
//	karpenter crds|controller|both VERSION [VALUE=…]
//		Installs or upgrades the charts with helm, as another tool than plumbline would; values are those of helm's
//		--set.
//	karpenter leads [-t D] VERSION
//		Waits until the rollout is complete, and a pod of that version holds the Lease.
//	upgraded [-t D] NODESYNC VERSION
//		Waits until the NodeSync is Ready at HEAD with that version of Karpenter, and a pod of it leads; prints how
//		long each step of the change took.
//	karpenter revision RELEASE STATUS|cut-off
//		Leaves the last revision of a Helm release as if helm had been killed: in a status such as pending-upgrade, or
//		with a truncated Secret.
//	karpenter pause, karpenter cont
//		Stops the processes of Karpenter's controller while their pods stay Ready, as if it hung; cont resumes them.
//	karpenter gone
//		Uninstalls both charts with helm, and deletes the remaining CRDs.
//	crds-by-kubectl VERSION
//		Applies the CRDs of a release with kubectl, as the upgrade guide recommends.
//	registry publishes CHART VERSION as TAG [says=V] [image=V] [PATH=FILE…]
//		Serves a forged chart: made from a release, with another version in its Chart.yaml, another tag of the image,
//		or files of $WORK in place of its own (none removes the file).
//	registry artifact TAG
//		Pushes the clone's HEAD to fleet:TAG next to the charts, as "flux push artifact" packs it.
//	registry away|truncated|corrupt|back, registry slow DURATION, registry answers STATUS
//		Disturbs the registry of the charts; back ends that.
//	terraform take FILE|FOLDER…
//		Copies files and folders of examples/terraform into a root module, $WORK/terraform/root.
//	terraform ARGS
//		Runs the real Terraform there, with an old helm provider; stdout checks its output. It is $TERRAFORM.
//	page NAME [HEADING…], page NAME but HEADING…
//		Runs the commands below headings of docs/NAME.md that are marked as tested, as a reader with a checkout would;
//		without a heading, it checks that none is left, except those that another story runs.
//	finish
//		Deletes the workloads, deletes the NodeSyncs with onDelete: Drain, waits until they are gone, and stops the
//		daemon.
package stories
