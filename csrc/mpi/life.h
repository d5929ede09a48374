/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the chapters that keep tables of their own; called by
 * world.c, init in this order, fini in the reverse one. A fini frees what the
 * program left behind and cannot fail.
 */
#ifndef TB_LIFE_H
#define TB_LIFE_H

#include "base/base.h"

tb_err tb_handle_init(void);
void tb_handle_fini(void);
tb_err tb_errh_init(void);
void tb_errh_fini(void);
tb_err tb_info_init(void);
void tb_info_fini(void);
tb_err tb_attr_init(void); /* before all that carry attributes */
void tb_attr_fini(void);
tb_err tb_type_init(void);
void tb_type_fini(void);
tb_err tb_op_init(void);
void tb_op_fini(void);
tb_err tb_p2p_init(void);
void tb_p2p_fini(void);
tb_err tb_group_init(void);
void tb_group_fini(void);
tb_err tb_comm_init(void); /* makes COMM_WORLD and COMM_SELF */
void tb_comm_fini(void);
tb_err tb_win_init(void);
void tb_win_fini(void);
/* The program may use them between MPI_Init and MPI_Finalize only; the library
 * has them as long as it is up. */
void tb_comm_show_world(void);
void tb_comm_hide_world(void);

#endif
