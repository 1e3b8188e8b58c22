// Package stories holds what users tell: testscripts over a sandbox in which
// everything is real but AWS. stories.txt lists them; each is a script in
// testdata/scripts.
//
//	go test ./stories                            all of them, a group on each core
//	go test ./stories -run 'TestStories/suspend' one
//	go test ./stories -run … -keep               and stay, to look around
//
// A story has a repository of its own on the Git host, cloned in $WORK/repo, and a kubeconfig of the administrator
// whose namespace is plumbline-system, and whom the deletion guard lets through; $MANIFESTS is the folder manifests of
// the checkout. Its first comment says what the user does and sees; its last line asks what is left in AWS. In its
// files of YAML @REPOSITORY@, @CHARTS@, @CLUSTER@ and @REGION@ stand for those of the sandbox; @KARPENTER@ is the newest version
// of Karpenter, in its commands too. Nothing sleeps: what is
// to come is waited for, with a deadline (-t, default 30s). The daemon ends, and the story fails, where it changes an
// object of its watch cache. A story fails, too, in which plumbline says for 15 s of nodes what is not so, by package
// witness: a commit is a success while a removal is open, say, or a removal that is Held goes on. These commands come
// on top of testscript's own (! before any of them wants it to fail):
//
//	seed [FOLDER]
//		Copies testdata/basic into the clone, or a folder of it: plumbline.yaml, the class default, the pools
//		general (weight 50) and batch (weight 10).
//	edit FILE OLD NEW
//		Replaces the one occurrence of OLD in a file of the clone.
//	push MESSAGE
//		Commits what changed in the clone and pushes it.
//	pushes N OLD NEW FILE…
//		Pushes N commits as fast as it goes; each replaces OLD, or what the one before has put there, by NEW in all
//		of the files. %d in NEW is its number.
//	git, kubectl, helm, plumbline ARGS
//		Run the program; stdout and stderr ask what it printed. git runs in the clone, plumbline is the command line
//		of the administrator.
//	exits CODE PROGRAM ARGS
//		Runs one of them, which has to end with the code.
//	named NAME
//		Sets $NAME to what the program before has printed.
//	expect [-t D] PROGRAM ARGS ~ REGEX
//		Runs one of them again and again until it prints what matches.
//	daemon pod FILE PATTERN
//		Runs the container of a Pod to its end, in the surroundings of deploy, and checks what it prints.
//	daemon [other] start|deploy|limited|cramped|stop|kill|pause|cont|ends|forget [FLAGS]
//		Handles the daemon, which runs with the rights of manifests/. deploy starts it as a pod of its Deployment,
//		the cluster's own where Helm installed one, and other as the second one; that takes root, which a script
//		asks for with [root]. limited starts it with the GOMEMLIMIT of its Deployment, cramped on a full disk: no
//		file of it can grow. stop is SIGTERM, and wants it to end well; kill is SIGKILL; pause and cont freeze it
//		and let it go on; ends waits until it has ended by itself; forget empties the cache of one that does not
//		run, as a Pod on another machine would find it. other is a second one beside it: that it ends fails no
//		story.
//	flux start|stop, helm-controller start|stop, notification-controller start|stop, argocd start|stop,
//	argocd-notifications start|stop
//		Handles the real controllers of Flux, in flux-system, and of Argo CD, in argocd. start builds what is missing, and applies the
//		Secret git there, by which it reads the story's repository. The notification-controller sets $EVENTS, where it takes events:
//		those of a Flux that is started later, and a daemon's with --events-addr.
//	leads [-t D] [other]
//		Waits until the daemon, or the other one, holds the leader's lease.
//	api up|down|hang|429 [DURATION], api slow DELAY, api expire
//		Handles the way between the daemon and the API server; the rest of the cluster has another. Said first
//		before the daemon is started. With a duration the fault ends by itself. expire cuts all watches, and what
//		they missed is not available by watching.
//	api writes = N
//		Counts what the daemon has sent to the API server to change anything.
//	rbac take VERB RESOURCE, rbac give
//		Takes a verb out of plumbline's ClusterRoles and Roles, and gives all of them back.
//	token FILE
//		Writes a kubeconfig with the token of the daemon's ServiceAccount, for kubectl --kubeconfig.
//	admission rejects|hangs KIND[/NAME], admission off
//		Has an admission webhook, sizes.example.com, see each such object.
//	term POINT [FLAGS]
//		Starts the daemon, sends it SIGTERM as soon as it reaches a step point (NAME#N), and checks that it ends well
//		within a Pod's grace.
//	killed [sample=N] SCENE…
//		Plays scenes over a NodeSync "killed", again and again, each time with the daemon killed at others of the
//		points that it reaches, and checks that it comes to the same end as without a kill: first-push, change,
//		removal, deletion, drain, stand-in (where no daemon runs, the command that drains in its place is killed), whole
//		(that command, down to Karpenter's CRDs), sweeps, terminates, cluster-gone (it ends things in AWS), upgrade,
//		rollback. PLUMBLINE_FULL=1 kills at all points, else five are drawn by PLUMBLINE_SEED; sample draws N of each
//		scene, in both tiers, unless PLUMBLINE_KILL=everywhere. -points REGEX kills at those that it matches.
//	nodesync NAME [FIELD=VALUE…]
//		Applies a NodeSync over the story's repository; fields of its spec are given by their path, values in YAML.
//		Fields given before stay. Removals have a grace of 1s, end all nodes in a step, and count for guard.removalPeriod 0s, unless
//		told otherwise.
//	deploykey SECRET
//		Lets a new key read the story's repository over ssh, and applies the Secret that has it. Sets $SSH_URL,
//		$SSH_HOST and $SSH_KEY, a line of the key, and $WEB_URL, the repository's page.
//	signer NAME openpgp|expired|ssh
//		Makes a key with gpg or ssh-keygen; one that is expired lasted a day in 2025.
//	sign NAME|none
//		Has git sign each commit in the clone with a signer's key from now on, or none.
//	signers SECRET NAME…
//		Applies the Secret that has the public keys of just these signers.
//	webhook TOKEN
//		Has the Git host tell of pushes to the story's repository, signed with the token, at $WEBHOOK: a free
//		address for the daemon's --webhook-addr.
//	browse address
//		Sets $PAGE, a free address for the daemon's --page-addr.
//	browse PATH ~ REGEXP
//		Waits until the text of the daemon's page matches.
//	browse same NODESYNC
//		Waits until the page says what plumbline status says.
//	browse pictures PATH
//		Has Chromium draw it in light, dark and narrow, where it is installed, into $PLUMBLINE_PICTURES.
//	pull open BRANCH
//	pull fork BRANCH [USER]
//		Pushes what changed in the clone to a branch, of the repository or of another user's fork, and opens a pull
//		request for it into main. Sets $PULL to its number.
//	pull before BRANCH OTHER… ~ REGEX
//		Waits until the pull requests of BRANCH and of another branch have a comment that matches, and checks that the one on
//		BRANCH is older than those on the others.
//	pull push|close|merge
//		Pushes what changed to the branch of that pull request, closes it, or merges it and pulls main into the
//		clone.
//	pull proposed N [~ REGEX]
//		Waits until the daemon has opened N pull requests, whatever became of them, the newest of which matches by
//		its title and text. Sets $PULL and $PULL_URL, its page.
//	pull comments N [~ REGEX]
//		Waits until it has N comments, the last of which matches.
//	ci FILE JOB [KEY=VALUE…]
//		Checks out the branch of that pull request, and runs in it the scripts of a job of a file of examples/ci, in
//		their order, with its environment and the given one, and nothing else.
//	actions run FILE [KEY=VALUE…]
//		Puts a pipeline of examples/ci into the clone, with these values of the variables at its top, and starts a
//		runner of the repository's Gitea Actions.
//	actions [-t D] success|failure [~ REGEX]
//		Waits until the one job on the head of that pull request has ended so, the commit's status says so, and the
//		job's log matches.
//	receiver
//		Starts a host at $RECEIVER_URL that takes whatever is posted to it.
//	receiver [-t D] PATH N ~ REGEX
//		Waits until N of what was posted to its path match.
//	parrot
//		Starts a host at $PARROT that answers every request with an error that repeats the request's credentials, in
//		every encoding. Sets $METRICS and $PROFILES, free addresses for the daemon's --metrics-addr and
//		--profiling-addr, and $REPO_URL, the story's repository.
//	parrot heard SECRET|nothing
//		Waits until it was sent the secret; or checks that it was asked nothing.
//	unsaid SECRET…
//		Holds that none of them, in any encoding, is in the daemon's log, status, events, ConfigMaps, commit
//		statuses, metrics or profiles, nor in what plumbline prints of the first NodeSync.
//	bomb NAME FOLDER
//		Writes a small commit that is a great deal of work into a folder of the clone: aliases, brackets, large,
//		kustomizations; archives, loop, hoard (charts); tree, which is pushed at once.
//	bomb objects BRANCH
//		Pushes a branch with more objects than one fetch may bring.
//	bomb index
//		Serves a chart repository with a large index, and sets $INDEX to its URL.
//	memory watch, and then memory within
//		Watches what the daemon and its children have in memory, and checks that it was always less than its
//		Deployment gives.
//	metrics, and then metrics watch
//		Sets $METRICS, a free address for the daemon's --metrics-addr; scrapes it each second.
//	metrics [-t D] ~ REGEX
//		Waits until a metric of the daemon matches, which serves them without authentication.
//	metrics shown
//		Ends that, and checks with Prometheus' library that each panel of the dashboard shows something of what was
//		scraped, and which alerts it would have led to.
//	logged [-t D] ~ REGEX
//		Waits until the daemon has logged what matches.
//	githost stop|start|pause|cont
//		Handles the Git host. stop is a crash, start brings it back at the same address; pause freezes it, so that
//		it takes connections and says nothing.
//	await [-t D] KIND/NAME [CONDITION=STATUS] [reason=R] [at=HEAD] [~ REGEX]
//		Waits until the object exists and the condition is as told, with a message that matches. Ready=True of a
//		NodeSync means that of the clone's HEAD; at=HEAD means it of other conditions, too; at=any of none.
//	await [-t D] gone KIND/NAME
//		Waits until there is no such object.
//	removal [-t D] NODESYNC KIND/NAME PHASE|Stalled|any|none [~ REGEX]
//		Waits until the removal has come so far, with a message that matches; any is as far as it may be.
//	release NODESYNC KIND/NAME
//		Annotates the NodeSync so that a removal goes on that is held because the status was lost.
//	events [-t D] NAME ~ REGEX
//		Waits for an event about NAME, newer than the story, as "Reason: message".
//	status [-t D] state=STATE [at=COMMIT] [subject=applied|drift|plan] [~ REGEX]
//		Waits until the newest status that the daemon set on the clone's HEAD, or on another commit, is as told;
//		without a subject that on the whole.
//	statuses STATE…
//		Holds that these are the states that HEAD had, in order, and that no description is longer than a Git host
//		shows.
//	contexts REGEX
//		Waits until the newest status of each context on HEAD, sorted, as CONTEXT=STATE, match.
//	statushost up|down|CODE
//		Has the Git host's API for commit statuses answer, not answer, or answer with a code. Sets $STATUS_URL, the
//		repository's page there, for report.url.
//	statushost posted COMMIT STATE…
//		Waits until the Git host has taken just these states through $STATUS_URL for a commit, in order, each as
//		often as it is named.
//	upstream EXAMPLE [FOLDER]
//		Copies one of Karpenter's own examples to FOLDER/upstream.yaml in the clone, by default in nodes.
//	userdata CLASS EXAMPLE
//		Waits until the class has the example's user data, byte for byte but for ${CLUSTER_NAME}.
//	workload NAME replicas=N [pool=POOL] [pdb=N] [volume=SIZE]
//		Applies a Deployment with a node for each pod, and waits until all are available. pdb wants so many of them
//		available always; volume has its pod use an EBS volume.
//	workload NAME gone
//		Deletes it.
//	volumes driver [intolerant]
//		Installs the EBS CSI driver; an intolerant one lacks the toleration of a drain, as before chart 1.37.
//	volumes leave NODE
//		Makes a VolumeAttachment of a node that is not there.
//	volumes [-t D] attached = N
//		Waits until there are so many VolumeAttachments.
//	volumes follow, and then volumes moved = N
//		Watches the volumes of claims, and checks that so many were attached to another node since, that each is the
//		one it was, and that none was attached twice; prints how long each took.
//	available NAME watch, and then available NAME [serving] >= N
//		Watches how many pods of a workload are available, and checks that they were at least N ever since. serving
//		counts, every 200 ms, those that are Ready, in their grace period too.
//	ec2 [-t D] count [pool=POOL] = N
//		Waits until so many instances are pending or running.
//	ec2 [-t D] left = empty
//		Waits until nothing in AWS carries the cluster's tags.
//	ec2 keep [pool=POOL]
//		Notes the instances; `ec2 kept` fails if one of them runs no more.
//	mark
//		Has writes, renders, children and calls count from now on.
//	writes [KIND[/NAME]] = N|KIND[/NAME]
//		Counts the daemon's successful writes to definitions (NodePools, EC2NodeClasses, NodeClaims), without those
//		to status. They are so many, or as many as those to something else.
//	deletes KIND…
//		Holds that the daemon has deleted objects of these kinds, all of one before the first of the next.
//	renders = N
//		Counts how often the daemon has rendered.
//	children = N
//		Counts the child processes that the daemon has started.
//	calls WHO ACTION = N
//		Counts calls to AWS by plumbline or anyone; * and ? are wildcards.
//	fault WHO SERVICE ACTION KIND [DURATION|N/s|Nx]
//		Makes calls to AWS go wrong: deny, throttle, expire, delay, loseResponse, hide; for so long, beyond so many
//		a second, or so many times. * and ? are wildcards.
//	fault WHO SERVICE ACTION error CODE [Nx]
//		Has calls to AWS fail with an error code of AWS's, such as InternalError.
//	fault off
//		Ends all faults.
//	answers WHO [flap=SHARE] [lag=D] [settle=D] [short=SHARE] [empty=SHARE] [tags=D] [token=D], answers usual
//		Has EC2 list instances to plumbline, or to anyone, as it may: flap is the share of answers that an instance
//		is missing from, lag how old what is shown may be, settle for how long after its last change an instance
//		does so; short and empty are the shares of such pages, tags is how long a dead instance keeps its tags,
//		token how long the token of a next page is accepted.
//	zone ZONE down|up
//		Disrupts an availability zone: EC2 refuses questions without the IDs of instances in other zones, and
//		launches or ends nothing there.
//	eks status STATUS, eks gone|back
//		Has EKS say of the cluster that it is UPDATING, say; that there is none; ends that.
//	account twin|empty|own
//		Gives plumbline the credentials of another account, which has a cluster of the same name or none; or its own
//		again.
//	elsewhere adds CLUSTER, elsewhere runs
//		Adds another EKS cluster to the account, with one node of its own; checks that this node runs.
//	capacity short [type=T] [zone=Z] [market=M], capacity back
//		Has launches fail for want of capacity; ends that.
//	ec2 kill|interrupt [pool=POOL]
//		Ends an instance as by hand; has EC2 take a spot instance back, after a warning.
//	ec2 spoil IMAGES, ec2 unspoil
//		Has instances of the images whose names match end as they are launched; ends that.
//	aws publishes VERSION
//		Publishes a release of AL2023, such as v20251103, which becomes the newest. A controller that runs asks for
//		it within a day.
//	aws withdraws VERSION
//		Deletes the images of a release of AL2023, and the SSM parameters that name them.
//		They are there again after the story.
//	aws tags|untags GROUP KEY=VALUE, aws role gone|back
//		Puts a tag on a security group of the cluster's VPC, or takes it off; deletes the role of Karpenter's
//		controller, or has it back.
//	prometheus fires|quiet
//		Starts a Prometheus, whose URL is in PROMETHEUS_URL, and reports whether a query has a result.
//	ec2 stop|protect [pool=POOL], ec2 start, ec2 unprotect
//		Stops an instance as by hand, or has EC2 refuse to end it; start and unprotect take that back for the one
//		that was named last.
//	ec2 untag
//		Takes the tag of its pool off the instance that was ended last.
//	ec2 stray pool=POOL, ec2 end
//		Launches an instance of a pool that no NodeClaim has; ends the instance that was named last.
//	ec2 leave [class=CLASS], ec2 clear [class=CLASS]
//		Leaves a volume and an interface with the cluster's tags, or a launch template and an instance profile of an
//		EC2NodeClass; deletes what is attached to nothing, or has the class's tag.
//	ec2 asked
//		Holds that plumbline has asked EC2 by its ID, since the mark, for the instance that was ended last, and has
//		got an answer.
//	karpenter images VERSION…
//		Has the controllers of older releases built, so that no pod waits for its image.
//	karpenter crds|controller|both VERSION [VALUE=…]
//		Installs or upgrades the charts with helm, as another tool than plumbline; values are those of helm's
//		--set.
//	karpenter leads [-t D] VERSION
//		Waits until the rollout is complete, and a pod of that version holds the Lease.
//	upgraded [-t D] NODESYNC VERSION
//		Waits until the NodeSync is Ready at HEAD with that version of Karpenter in force, and a pod of it leads;
//		prints how long each step of the change took.
//	karpenter revision RELEASE STATUS|cut-off
//		Leaves the last revision of a Helm release as one who was killed at it does, pending-upgrade say, or with
//		its Secret cut off in the middle.
//	karpenter pause, karpenter cont
//		Stops the processes of Karpenter's controller while their pods stay Ready, as one that hangs; lets them go on.
//	karpenter gone
//		Uninstalls both charts with helm, and deletes the CRDs that are left.
//	crds-by-kubectl VERSION
//		Applies the CRDs of a release with kubectl, as one does who reads the upgrade guide.
//	registry publishes CHART VERSION as TAG [says=V] [image=V] [PATH=FILE…]
//		Serves a chart that lies: made from a release, with another version in its Chart.yaml, another tag of the
//		image, files of $WORK in the place of its own (none: without it).
//	registry artifact TAG
//		Pushes the clone's HEAD to fleet:TAG beside the charts, as "flux push artifact" packs it.
//	registry away|truncated|corrupt|back, registry slow DURATION, registry answers STATUS
//		Has the registry of the charts go wrong; ends that.
//	terraform take FILE|FOLDER…
//		Copies files and folders of examples/terraform into a root module, $WORK/terraform/root.
//	terraform ARGS
//		Runs the real Terraform there, with an old helm provider; stdout asks what it printed. It is $TERRAFORM.
//	page NAME [HEADING…], page NAME but HEADING…
//		Runs the commands below headings of docs/NAME.md that report that they are tested, as a reader in a checkout;
//		without a heading it checks that none is left, but those that another story runs.
//	finish
//		Deletes the workloads, has the NodeSyncs deleted with onDelete Drain, waits until they are gone, and stops
//		the daemon.
package stories
