// SPDX-License-Identifier: GPL-2.0
/*
 * A gentler Reno: it grows as Reno does, and after a loss it keeps seven tenths of its window where Reno keeps half.
 */
#include <linux/module.h>
#include <net/tcp.h>

struct gentle {
	u32 losses;	/* how often the window was cut, to show where a state of one's own goes */
};

static void gentle_init(struct sock *sk)
{
	struct gentle *own = inet_csk_ca(sk);

	own->losses = 0;
}

/* The window at which slow start ends after a loss, in segments. */
static u32 gentle_ssthresh(struct sock *sk)
{
	struct gentle *own = inet_csk_ca(sk);

	own->losses++;
	return max(tcp_snd_cwnd(tcp_sk(sk)) * 7 / 10, 2U);
}

/* Called for each ACK that acknowledges new data: slow start, then one segment a round trip. */
static void gentle_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static struct tcp_congestion_ops gentle __read_mostly = {
	.init		= gentle_init,
	.ssthresh	= gentle_ssthresh,
	.cong_avoid	= gentle_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "gentle",
};

static int __init gentle_register(void)
{
	BUILD_BUG_ON(sizeof(struct gentle) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&gentle);
}

static void __exit gentle_unregister(void)
{
	tcp_unregister_congestion_control(&gentle);
}

module_init(gentle_register);
module_exit(gentle_unregister);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A gentler Reno");
